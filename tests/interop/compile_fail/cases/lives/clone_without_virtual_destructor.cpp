// expect: needs a virtual destructor
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    virtual int number() const { return 0; }
};
VERBATIM_DESCRIBE(X)
void use(const verbatim::Received<std::unique_ptr<X>>& graph) { (void)graph.clone(); }

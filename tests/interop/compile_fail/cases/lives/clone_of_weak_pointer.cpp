// expect: clone() cannot copy weak pointers; use compact()
#include <memory>
#include <verbatim/objects.hpp>
struct X {
    std::shared_ptr<X> owner;
    std::weak_ptr<X> parent;
};
void use(const verbatim::Received<X>& graph) { (void)graph.clone(); }

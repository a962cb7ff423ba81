// expect: clone() needs an owner for every object
#include <verbatim/objects.hpp>
struct X {
    X* next = nullptr;
};
void use(const verbatim::Received<X>& graph) { (void)graph.clone(); }

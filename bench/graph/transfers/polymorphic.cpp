// verbatim.arena of a tree with virtual functions; its floor is the transfer of the same tree
// without.
#include "../workloads/polymorphic.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {

void add_polymorphic_transfers() {
    const std::string name = "polymorphic_tree_2^20";
    add_graph_transfer(Twigs<Twig>{{name}});
    add_subject(name, "floor", [=] {
        return std::make_unique<GraphTransfer<Twigs<PlainTwig>>>(Twigs<PlainTwig>{{name}});
    });
}

}  // namespace bench_graph

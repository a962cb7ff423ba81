// local_*: composed messages within one process, without a way between: what they cost beside the
// bytes' copy. verbatim.composed: the sender's look at all references, a copy of the bytes, the
// receiver's verification of it. floor: the same copy, and a verifying traversal by hand.
// floor_composed: the same floor beside composed messages between two processes.
#include <verbatim/objects/composed/composed_verifier.hpp>

#include "../workloads/all.hpp"
#include "local_message.hpp"

namespace bench_graph {
namespace {

template <class W>
class LocalComposed final : public LocalMessage<W> {
  public:
    using LocalMessage<W>::LocalMessage;
    void transfer() override {
        const auto bytes = this->composition_.finish(this->tables_);
        objects::ComposedVerifier<typename W::Root> verifier(this->tables_);
        this->received_ = verifier.run(this->copy(bytes->memory));
    }
};

template <class W>
void add_local(const W& workload) {
    add_subject(workload.name, "floor", [=] { return std::make_unique<LocalFloor<W>>(workload); });
    add_subject(workload.name, "verbatim.composed",
                [=] { return std::make_unique<LocalComposed<W>>(workload); });
}

template <class W>
void add_composed_floor(const W& workload) {
    if (workload.place == Place::arena)
        add_subject(workload.name, "floor_composed",
                    [=] { return std::make_unique<LocalFloor<W>>(workload); });
}

}  // namespace

void add_local_messages() {
    add_local(List{{"local_list"}});
    add_local(List{{"local_list_shuffled"}, Order::shuffled});
    add_local(Tree{{"local_tree"}});
    add_local(Cyclic{{"local_cyclic"}});
    add_local(Points{{"local_points"}});
    add_local(Points{{"local_points_shuffled"}, Order::shuffled});
    add_local(Meshes<Mesh>{{"local_mesh"}});
    add_local(Records{{"local_records"}});
    add_local(Maps<OrderedMap>{{"local_map"}});
    add_local(Maps<HashedMap>{{"local_unordered_map"}});
}

void add_composed_floors() {
    for_each_composed([](const auto& workload) { add_composed_floor(workload); });
}

}  // namespace bench_graph

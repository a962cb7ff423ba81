// local_*: composed messages within one process, without a way between: what they cost beside the
// bytes' copy. verbatim.composed: the sender's look at all references, a copy of the bytes, the
// receiver's verification of it. floor: the same copy, and a verifying traversal by hand. Memory of
// both is warm.
#include <verbatim/objects/composed/composed_verifier.hpp>
#include <verbatim/objects/composed/composition.hpp>

#include "../subject.hpp"
#include "composed_containers.hpp"
#include "composed_links.hpp"

namespace bench_graph {
namespace {

namespace objects = verbatim::objects;

template <class W>
class LocalMessage : public Subject {
  public:
    using Root = typename W::Root;
    explicit LocalMessage(const W& workload) : workload_(workload) {
        composition_.set_root(*workload_.make(composition_));
        bytes_ = composition_.finish()->memory.used;
    }
    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return bytes_; }
    bool verify() override { return sum_of(*received_) == sum_of(composition_.root()); }

  protected:
    objects::ComposedMemory copy(const objects::ComposedMemory& memory) const {
        std::memcpy(copy_.data(), memory.bytes, memory.used);
        return {copy_.data(), memory.used, memory.address};
    }

    W workload_;
    objects::Composition<Root> composition_{std::uint64_t{1} << 30};
    WarmBlock copy_{2 * workload_.bytes() + 8192};
    Root* received_ = nullptr;
    std::uint64_t bytes_ = 0;
};

template <class W>
class LocalComposed final : public LocalMessage<W> {
  public:
    using LocalMessage<W>::LocalMessage;
    void transfer() override {
        const auto bytes = this->composition_.finish();
        objects::ComposedVerifier<typename W::Root> verifier(tables_);
        this->received_ = verifier.run(this->copy(bytes->memory));
    }

  private:
    objects::ComposedTables tables_;  // as a connection has
};

template <class W>
class LocalFloor final : public LocalMessage<W> {
  public:
    explicit LocalFloor(const W& workload)
        : LocalMessage<W>(workload), sent_(this->composition_.finish()->memory) {}
    void transfer() override {
        const objects::ComposedMemory memory = this->copy(sent_);
        this->received_ = by_hand::receive(&this->composition_.root(), memory, map_.data());
    }

  private:
    const objects::ComposedMemory sent_;
    WarmBlock map_{this->bytes_ / 4 + 4096};
};

template <class W>
void add_local(const W& workload) {
    add_subject(workload.name, "floor", [=] { return std::make_unique<LocalFloor<W>>(workload); });
    add_subject(workload.name, "verbatim.composed",
                [=] { return std::make_unique<LocalComposed<W>>(workload); });
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

}  // namespace bench_graph

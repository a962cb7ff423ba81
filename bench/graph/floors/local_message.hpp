// A local message is a composed message without a way between two processes: its bytes are copied
// within one. Memory of the copy is warm.
#pragma once

#include <verbatim/objects/composed/composition.hpp>

#include "../subject.hpp"
#include "../workloads/workload.hpp"
#include "composed_containers.hpp"
#include "composed_graphs.hpp"
#include "composed_links.hpp"
#include "composed_packages.hpp"

namespace bench_graph {

namespace objects = verbatim::objects;

template <class W>
class LocalMessage : public Subject {
  public:
    using Root = typename W::Root;
    explicit LocalMessage(const W& workload) : workload_(workload) {
        composition_.set_root(*make_composed(workload_, composition_));
        bytes_ = composition_.finish(tables_)->memory.used;
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
    objects::ComposedTables tables_;  // as a connection has
    objects::Composition<Root> composition_{std::uint64_t{1} << 30};
    WarmBlock copy_{2 * workload_.bytes() + 8192};
    Root* received_ = nullptr;
    std::uint64_t bytes_ = 0;
};

// The floor of a composed message: a copy, and a verifying traversal by hand.
template <class W>
class LocalFloor final : public LocalMessage<W> {
  public:
    explicit LocalFloor(const W& workload)
        : LocalMessage<W>(workload), sent_(this->composition_.finish(this->tables_)->memory) {}
    void transfer() override {
        const objects::ComposedMemory memory = this->copy(sent_);
        this->received_ = by_hand::receive(&this->composition_.root(), memory, map_.data());
    }

  private:
    const objects::ComposedMemory sent_;
    WarmBlock map_{this->bytes_ / 4 + 4096};
};

}  // namespace bench_graph

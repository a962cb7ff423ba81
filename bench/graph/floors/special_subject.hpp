// A special floor is written by hand for one workload, and knows what nobody could know of graphs
// in general: here, where the objects are, and that nothing is shared but what it expects.
#pragma once

#include "../subject.hpp"
#include "../workloads/workload.hpp"

namespace bench_graph {

// The sending side; `Transfer` adds transfer() and received().
template <class W>
class SpecialFloor : public Subject {
  public:
    explicit SpecialFloor(const W& workload)
        : workload_(workload),
          source_(make_memory(workload.place, workload.bytes())),
          sent_(workload.make(*source_)) {}
    std::uint64_t objects() const override { return workload_.objects(); }
    bool verify() override { return sum_of(received()) == sum_of(sent()); }

  protected:
    const typename W::Root& sent() const { return *sent_; }
    const W& workload() const { return workload_; }
    const GraphMemory& source() const { return *source_; }
    // As ordinary objects; may build some.
    virtual const typename W::Root& received() = 0;

  private:
    W workload_;
    std::unique_ptr<GraphMemory> source_;
    const typename W::Root* sent_;
};

}  // namespace bench_graph

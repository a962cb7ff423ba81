// A peer's subject: a codec between a source of its own and memory for received objects.
#pragma once

#include "../subject.hpp"
#include "../workloads/workload.hpp"

namespace bench_graph {

// Codec(workload, sent) may prepare what is not measured. transfer(sent, memory) is measured: from
// the objects that are sent to what this use of the peer gives its receiver. received(memory) is
// that as ordinary objects; it may build them there. bytes() crossed in the last transfer.
template <class W, class Codec>
class PeerSubject final : public Subject {
  public:
    explicit PeerSubject(const W& workload)
        : workload_(workload),
          source_(make_memory(workload.place, workload.bytes())),
          sent_(workload.make(*source_)),
          memory_(make_memory(workload.place, 2 * workload.bytes())),
          codec_(workload, *sent_) {}
    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return codec_.bytes(); }
    void transfer() override {
        memory_->reset();
        codec_.transfer(*sent_, *memory_);
    }
    bool verify() override { return sum_of(codec_.received(*memory_)) == sum_of(*sent_); }

  private:
    W workload_;
    std::unique_ptr<GraphMemory> source_;
    const typename W::Root* sent_;
    std::unique_ptr<GraphMemory> memory_;
    Codec codec_;
};

template <template <class> class Codec, class W>
void add_peer(const W& workload, const std::string& subject, Measure measure = Measure::warm) {
    add_subject(
        workload.name, subject,
        [=] { return std::make_unique<PeerSubject<W, Codec<typename W::Root>>>(workload); },
        measure);
}

}  // namespace bench_graph

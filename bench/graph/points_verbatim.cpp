// verbatim.arena: the points lie in the sender's arena. verbatim.heap: on the ordinary heap, staged
// by copying.
#include <optional>

#include "points_subject.hpp"
#include "verbatim_pair.hpp"

namespace bench_graph {
namespace {

template <class CloudType>
class PointsVerbatim : public Subject {
  public:
    std::uint64_t objects() const override { return kPoints; }
    std::uint64_t bytes() const override { return pair_.bytes(); }
    void transfer() override {
        received_.reset();
        received_.emplace(pair_.transfer(sent()));
    }
    bool verify() override {
        return (*received_)->points.size() == kPoints &&
               points_checksum(**received_) == points_checksum(sent());
    }

  protected:
    virtual const CloudType& sent() const = 0;
    VerbatimPair pair_{ArenaSource::kBytes};

  private:
    std::optional<verbatim::Received<CloudType>> received_;
};

class PointsInArena final : public PointsVerbatim<Cloud> {
  public:
    explicit PointsInArena(Order order) : cloud_(make_cloud(pair_.arena(), order)) {}

  private:
    const Cloud& sent() const override { return *cloud_; }
    Cloud* cloud_;  // the arena's
};

class PointsOnHeap final : public PointsVerbatim<HeapCloud> {
  private:
    const HeapCloud& sent() const override { return *cloud_; }
    OwnedHeapCloud cloud_ = make_heap_cloud();
};

}  // namespace

void add_points_verbatim() {
    for (const auto& [name, order] : {std::pair("points_2^20", Order::allocation),
                                      std::pair("points_2^20_shuffled", Order::shuffled)})
        add_subject(name, "verbatim.arena",
                    [order = order] { return std::make_unique<PointsInArena>(order); });
    add_subject("points_2^20_heap", "verbatim.heap",
                [] { return std::make_unique<PointsOnHeap>(); });
}

}  // namespace bench_graph

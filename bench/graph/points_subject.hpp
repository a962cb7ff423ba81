// What the points subjects have in common: the three cases, and comparing what arrived.
#pragma once

#include <memory>
#include <type_traits>

#include "points.hpp"
#include "subject.hpp"

namespace bench_graph {

// A subject that sends what Source holds. `Source` is ArenaSource or HeapSource.
template <class Source>
class PointsSubject : public Subject {
  public:
    template <class... Args>
    explicit PointsSubject(Args... args) : source_(args...) {}
    std::uint64_t objects() const override { return kPoints; }

  protected:
    static constexpr bool kHeap = std::is_same_v<Source, HeapSource>;
    const auto& sent() const { return *source_.cloud; }
    template <class CloudType>
    bool equals_sent(const CloudType& received) const {
        return received.points.size() == kPoints &&
               points_checksum(received) == points_checksum(sent());
    }

  private:
    Source source_;
};

// Receives into ordinary objects: separate allocations, from warm memory that is taken back as a
// whole where the case is an arena, from the heap where it is the heap.
template <class Source>
class ReceivedPoints {
  public:
    static constexpr bool kHeap = std::is_same_v<Source, HeapSource>;
    using CloudType = std::conditional_t<kHeap, HeapCloud, Cloud>;

    CloudType& restart() {
        if constexpr (kHeap) {
            cloud_.reset(new HeapCloud);
            return *cloud_;
        } else {
            memory_.reset();
            cloud_ = ::new (memory_.allocate(sizeof(Cloud), alignof(Cloud)))
                Cloud{std::pmr::vector<Point*>(&memory_)};
            return *cloud_;
        }
    }
    Point* make(Point point) {
        if constexpr (kHeap)
            return new Point(point);
        else
            return ::new (memory_.allocate(sizeof(Point), alignof(Point))) Point(point);
    }
    const CloudType& cloud() const { return *cloud_; }

  private:
    struct Nothing {};
    [[no_unique_address]] std::conditional_t<kHeap, Nothing, WarmMemory> memory_ = make_memory();
    std::conditional_t<kHeap, OwnedHeapCloud, Cloud*> cloud_{};

    static auto make_memory() {
        if constexpr (kHeap)
            return Nothing{};
        else
            return WarmMemory(ArenaSource::kBytes);
    }
};

// Adds Subject<ArenaSource> to the arena cases and Subject<HeapSource> to the heap case.
template <template <class> class SubjectType>
void add_to_points_cases(const std::string& subject) {
    const auto in_arena = [](Order order) {
        return [order] { return std::make_unique<SubjectType<ArenaSource>>(order); };
    };
    add_subject("points_2^20", subject, in_arena(Order::allocation));
    add_subject("points_2^20_shuffled", subject, in_arena(Order::shuffled));
    add_subject("points_2^20_heap", subject,
                [] { return std::make_unique<SubjectType<HeapSource>>(); });
}

}  // namespace bench_graph

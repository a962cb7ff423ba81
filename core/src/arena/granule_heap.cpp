// Placement and merging of an arena's granules.
#include "granule_heap.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace verbatim {
namespace {

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

std::uint64_t GranuleHeap::allocate(std::uint64_t granules, std::uint64_t alignment) {
    if (granules <= kSmall && !small_[granules].empty() &&
        small_[granules].front() % alignment == 0) {
        small_free_ -= granules;
        taken_ += granules;
        return small_[granules].pop();
    }
    std::uint64_t first = take_from_run(granules, alignment);
    if (first == kNone && granules <= kSmall && start_run_in_largest_hole(granules, alignment))
        first = take_from_run(granules, alignment);
    if (first == kNone) first = take_from_hole(granules, alignment);
    if (first != kNone) taken_ += granules;
    return first;
}

std::uint64_t GranuleHeap::take_from_run(std::uint64_t granules, std::uint64_t alignment) {
    const std::uint64_t first = align_up(run_.next, alignment);
    if (first > run_.end || granules > run_.end - first) return kNone;
    const std::uint64_t gap = run_.next;
    run_.next = first + granules;
    if (gap != first) add_free(gap, first - gap);
    return first;
}

std::uint64_t GranuleHeap::take_from_hole(std::uint64_t granules, std::uint64_t alignment) {
    for (auto it = holes_by_length_.lower_bound({granules, 0}); it != holes_by_length_.end();
         ++it) {
        const auto [length, hole] = *it;
        const std::uint64_t first = align_up(hole, alignment), end = hole + length;
        if (first > end || granules > end - first) continue;
        erase_hole(holes_.find(hole));
        if (first != hole) add_free(hole, first - hole);
        if (first + granules != end) add_free(first + granules, end - first - granules);
        return first;
    }
    return kNone;
}

bool GranuleHeap::start_run_in_largest_hole(std::uint64_t granules, std::uint64_t alignment) {
    if (holes_by_length_.empty()) return false;
    const auto [length, hole] = *holes_by_length_.rbegin();
    if (length < granules + alignment - 1) return false;
    erase_hole(holes_.find(hole));
    const Run old = std::exchange(run_, Run{hole, hole + length});
    if (old.next != old.end) add_free(old.next, old.end - old.next);
    return true;
}

void GranuleHeap::release(std::uint64_t first, std::uint64_t granules) {
    taken_ -= granules;
    if (taken_ == 0) {  // everything is free: start over, adjacent again
        forget_all_free();
        run_ = {0, populated_};
    } else if (first + granules == run_.next) {
        run_.next = first;
    } else {
        add_free(first, granules);
    }
}

void GranuleHeap::extend(std::uint64_t populated) {
    const std::uint64_t old = std::exchange(populated_, populated);
    if (run_.end == old)
        run_.end = populated;
    else
        add_hole(old, populated - old);
}

std::uint64_t GranuleHeap::populated_for(std::uint64_t granules,
                                         std::uint64_t alignment) const noexcept {
    std::uint64_t tail = populated_;  // where the free space that touches the end begins
    if (run_.end == populated_)
        tail = run_.next;
    else if (!holes_.empty() && holes_.rbegin()->first + holes_.rbegin()->second == populated_)
        tail = holes_.rbegin()->first;
    return align_up(tail, alignment) + granules;
}

void GranuleHeap::add_free(std::uint64_t first, std::uint64_t granules) {
    if (granules > kSmall) return add_hole(first, granules);
    small_[granules].push(first);
    small_free_ += granules;
    ++freed_small_;
}

void GranuleHeap::add_hole(std::uint64_t first, std::uint64_t granules) {
    auto next = holes_.lower_bound(first);
    if (next != holes_.end() && first + granules == next->first) {
        granules += next->second;
        erase_hole(next++);
    }
    if (next != holes_.begin()) {
        const auto previous = std::prev(next);
        if (previous->first + previous->second == first) {
            first = previous->first;
            granules += previous->second;
            erase_hole(previous);
        }
    }
    holes_.emplace(first, granules);
    holes_by_length_.emplace(granules, first);
}

void GranuleHeap::erase_hole(Holes::iterator hole) {
    holes_by_length_.erase({hole->second, hole->first});
    holes_.erase(hole);
}

void GranuleHeap::forget_all_free() noexcept {
    if (small_free_ != 0)
        for (FreeQueue& queue : small_) queue.clear();
    small_free_ = freed_small_ = unmerged_ = 0;
    holes_.clear();
    holes_by_length_.clear();
}

bool GranuleHeap::consolidate() {
    if (small_free_ == 0) return false;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks(holes_.begin(), holes_.end());
    for (std::uint64_t granules = 1; granules <= kSmall; ++granules)
        for (FreeQueue& queue = small_[granules]; !queue.empty();)
            blocks.emplace_back(queue.pop(), granules);
    if (run_.next != run_.end) blocks.emplace_back(run_.next, run_.end - run_.next);
    std::sort(blocks.begin(), blocks.end());
    forget_all_free();
    run_ = {0, 0};
    for (std::size_t i = 0;
         i < blocks.size();) {  // merge neighbours before any of them becomes small again
        const std::uint64_t first = blocks[i].first;
        std::uint64_t end = first;
        for (; i < blocks.size() && blocks[i].first == end; ++i) end += blocks[i].second;
        add_free(first, end - first);
    }
    unmerged_ = std::exchange(freed_small_, 0);  // those that stayed small
    return true;
}

}  // namespace verbatim

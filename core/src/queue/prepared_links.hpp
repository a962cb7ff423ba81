// The prepared operations of a connection, and the keys that each uses: the end of a grant ends
// those that use its key. Threads: the lane's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/fixed_shape.hpp>

namespace verbatim {

// One read of a list; single operations have one, too.
struct PreparedTarget {
    mlx5::RemoteMemory remote;
    mlx5::Element local;
};

// A node of its connection's list until either of them goes.
struct PreparedLink {
    PreparedLink() = default;
    PreparedLink(const PreparedLink&) = delete;
    PreparedLink& operator=(const PreparedLink&) = delete;

    // `keys`: sorted.
    bool uses(std::span<const std::uint32_t> keys) const noexcept {
        for (const PreparedTarget& target : targets)
            if (std::ranges::binary_search(keys, target.remote.key)) return true;
        return false;
    }

    std::span<PreparedTarget> targets;
    bool valid = true;
    bool is_listed = false;            // false: the connection has ended
    bool is_partial = false;           // an execution was accepted in part, and not yet as a whole
    std::uint64_t number = 0;          // of the last request that was executed; 0: there was none
    Errc outcome = Errc::would_block;  // of that request, once the connection has ended
    PreparedLink *next = nullptr, *previous = nullptr;
};

class PreparedLinks {
  public:
    bool empty() const noexcept { return first_ == nullptr; }
    void add(PreparedLink& link) noexcept {
        link.next = first_;
        if (first_ != nullptr) first_->previous = &link;
        first_ = &link;
        link.is_listed = true;
    }
    void remove(PreparedLink& link) noexcept {
        (link.previous == nullptr ? first_ : link.previous->next) = link.next;
        if (link.next != nullptr) link.next->previous = link.previous;
        link.next = link.previous = nullptr;
        link.is_listed = false;
    }
    // One walk for all of a notice's keys, which are sorted.
    void end(std::span<const std::uint32_t> keys) noexcept {
        for (PreparedLink* at = first_; at != nullptr; at = at->next)
            if (at->valid && at->uses(keys)) at->valid = false;
    }
    // The connection ends, or closes.
    void end_all() noexcept {
        for (PreparedLink* at = first_; at != nullptr; at = at->next) at->valid = false;
    }
    // The connection goes: `outcome_of(number)` is that of a request.
    template <class OutcomeOf>
    void drop_all(OutcomeOf outcome_of) noexcept {
        while (first_ != nullptr) {
            PreparedLink& link = *first_;
            remove(link);
            link.outcome = outcome_of(link.number);
        }
    }

  private:
    PreparedLink* first_ = nullptr;
};

}  // namespace verbatim

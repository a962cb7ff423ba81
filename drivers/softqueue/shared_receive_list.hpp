// The device's side of a shared receive queue: takes posted entries from the start of the driver's
// list. Queue pairs in several threads may take at once: an entry changes hands with one
// compare-and-swap, and nobody ever waits. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "completion_ring.hpp"

namespace verbatim::softnic {

class SharedReceiveList {
  public:
    enum class Taken : std::uint8_t { nothing, entry, broken };

    // `domain`: the protection domain of its entries' keys.
    explicit SharedReceiveList(const mlx5::SharedReceiveQueueView& view,
                               std::uint32_t domain = 0) noexcept
        : view_(view), domain_(domain) {}

    // The next posted entry, the caller's until its completion is written. Broken: the driver's
    // record or link is none of this queue.
    Taken take(std::uint16_t& index) noexcept {
        std::uint64_t head = head_.load(std::memory_order_acquire);
        for (;;) {
            const auto available = static_cast<std::uint16_t>(posted() - (head >> kIndexBits));
            if (available == 0) return Taken::nothing;
            const auto first = static_cast<std::uint16_t>(head);
            const std::uint16_t next = next_of(first);
            if (available >= view_.entries || next >= view_.entries) [[unlikely]] {
                // Unless others went on meanwhile, and this is only an old view of the list.
                const std::uint64_t now = head_.load(std::memory_order_acquire);
                if (now == head) return Taken::broken;
                head = now;
                continue;
            }
            // The link was read before anybody can complete the entry: afterwards it is the
            // driver's.
            const std::uint64_t after = ((head >> kIndexBits) + 1) << kIndexBits | next;
            if (head_.compare_exchange_weak(head, after, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
                index = first;
                if (available <= limit_.load(std::memory_order_relaxed)) [[unlikely]]
                    reach_limit();
                return Taken::entry;
            }
        }
    }

    // Called once when fewer than `limit` entries are left, by the thread that took one; at once
    // if there are no more now. 0: never.
    struct LimitHook {
        void (*call)(void* context) noexcept = nullptr;
        void* context = nullptr;
    };
    void set_limit_hook(const LimitHook& hook) noexcept { limit_hook_ = hook; }
    void set_limit(std::uint16_t limit) noexcept {
        limit_.store(limit);
        const auto left = static_cast<std::uint16_t>(posted() - (head_.load() >> kIndexBits));
        if (left < limit) reach_limit();
    }
    std::uint16_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

    // The scatter list of an entry that was taken.
    std::span<const std::byte> segments(std::uint16_t index) const noexcept {
        return std::span(entry(index), std::size_t{1} << view_.stride_log2)
            .subspan(sizeof(mlx5::SharedReceiveNextSegment));
    }
    std::uint32_t number() const noexcept { return view_.number; }
    std::uint32_t domain() const noexcept { return domain_; }
    std::uint32_t entries() const noexcept { return view_.entries; }

  private:
    static constexpr int kIndexBits = 16;

    void reach_limit() noexcept {
        if (limit_.exchange(0) != 0 && limit_hook_.call != nullptr)
            limit_hook_.call(limit_hook_.context);
    }
    std::uint16_t posted() const noexcept {
        return static_cast<std::uint16_t>(read_record(view_.doorbell_record + mlx5::kRecordShared));
    }
    const std::byte* entry(std::uint16_t index) const noexcept {
        return view_.buffer + (std::size_t{index} << view_.stride_log2);
    }
    // Atomic: the entry may be another's by now, and its link be written.
    std::uint16_t next_of(std::uint16_t index) const noexcept {
        const auto* const next = reinterpret_cast<const std::uint16_t*>(
            entry(index) + offsetof(mlx5::SharedReceiveNextSegment, next_index));
        return mlx5::be16::from_raw(__atomic_load_n(next, __ATOMIC_RELAXED)).native();
    }

    mlx5::SharedReceiveQueueView view_;
    std::uint32_t domain_;
    LimitHook limit_hook_;
    std::atomic<std::uint16_t> limit_{0};
    // [63:16] entries ever taken, which tells two visits of the same entry apart, [15:0] the next.
    std::atomic<std::uint64_t> head_{0};
};

}  // namespace verbatim::softnic

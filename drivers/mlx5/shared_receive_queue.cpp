// The cold half of the shared receive queue: construction and prebuilt entries.
#include <algorithm>
#include <bit>
#include <cstring>

#include <verbatim/mlx5/shared_receive_queue.hpp>

#include "queue_limits.hpp"

namespace verbatim::mlx5 {
namespace {

const SharedReceiveQueueView& checked(const SharedReceiveQueueView& view) {
    require(aligned(view.buffer, kUnitBytes), view, "the buffer is null or misaligned");
    require(std::has_single_bit(view.entries) && view.entries >= 2 && view.entries <= kMaxEntries,
            view, "the number of entries is not a power of two from 2 to 32768");
    require(view.stride_log2 >= 5 && view.stride_log2 <= 10, view,
            "the stride is not 32 to 1024 bytes");
    require(aligned(view.doorbell_record, alignof(std::uint32_t)), view,
            "the doorbell record is null or misaligned");
    return view;
}

constexpr std::uint32_t elements_in(std::uint32_t stride_log2) {
    constexpr std::uint32_t kLinkUnits = sizeof(SharedReceiveNextSegment) / kUnitBytes;
    return (1U << stride_log2) / kUnitBytes - kLinkUnits;
}

}  // namespace

SharedReceiveQueue::SharedReceiveQueue(const SharedReceiveQueueView& view)
    : ring_(checked(view).buffer),
      slots_(std::make_unique<Slot[]>(view.entries)),
      record_(view.doorbell_record + kRecordShared),
      entries_(view.entries),
      unfilled_(view.entries),
      tail_(static_cast<std::uint16_t>(view.entries - 1)),
      stride_log2_(view.stride_log2),
      max_elements_(std::min(view.max_elements, elements_in(view.stride_log2))),
      number_(view.number),
      hook_(view.receive_hook) {
    // What is reserved beside the links must be zero, and nobody said that the memory is.
    for (std::uint32_t i = 0; i < entries_; ++i)
        std::memset(entry(i), 0, sizeof(SharedReceiveNextSegment));
    for (std::uint16_t i = 0; i < tail_; ++i) {
        const auto next = static_cast<std::uint16_t>(i + 1);
        slots_[i].next = next;
        link(i, next);
    }
    slots_[tail_].next = kEnd;
}

Errc SharedReceiveQueue::prebuild(std::span<const ReceiveRequest> requests) noexcept {
    if (requests.size() != entries_ || outstanding_ != 0) return Errc::invalid_argument;
    for (const ReceiveRequest& request : requests) {
        if (const Errc error = check(request); error != Errc::ok) return error;
    }
    std::uint16_t index = head_;
    for (const ReceiveRequest& request : requests) {
        write(index, request);
        index = slots_[index].next;
    }
    unfilled_ = 0;
    return Errc::ok;
}

}  // namespace verbatim::mlx5

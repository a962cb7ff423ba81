// What a completion queue does besides being polled: arming, and moving to another buffer. Source:
// PRM, "Completion Event Queues" (arming, sequence of events), "CQ resize".
#include <cstring>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>

namespace verbatim::mlx5 {

Errc CompletionQueue::arm(Notify notify) noexcept {
    if (register_ == nullptr) return Errc::unsupported;
    const std::uint32_t raw =
        be32((events_ & kArmSequenceMask) << kArmSequenceShift |
             (notify == Notify::solicited ? kArmSolicited : 0) | (consumer_ & kConsumerIndexMask))
            .raw();
    // 1. The record, which a device that lost its context of this queue reads again.
    __atomic_store_n(record_ + kRecordArm, raw, __ATOMIC_RELEASE);
    // 2. Before the register: that one is write-combining memory and would pass it.
    store_fence();
    // 3. The register. One store: other threads arm other queues by the same register.
    auto* const to = reinterpret_cast<volatile std::uint64_t*>(register_ + kArmRegisterOffset);
    __atomic_store_n(to, raw | std::uint64_t{be32(number_).raw()} << 32, __ATOMIC_RELAXED);
    // 4. Out of the write-combining buffer: the arming thread is about to sleep.
    store_fence();
    // 5. A software device may look at it here, in the arming thread.
    if (arm_hook_.call != nullptr) arm_hook_.call(arm_hook_.context);
    return Errc::ok;
}

void CompletionQueue::resize(CompletionQueueHandle& handle, std::uint32_t entries) {
    if (handle.view().number != number_ || handle.view().buffer != ring_)
        throw Error(Errc::invalid_argument, "completion queue " + std::to_string(number_),
                    "the handle is another queue's", "pass the handle whose view made this queue");
    handle.resize(entries);
    move_to(handle.view());
    handle.forget_old_buffer();
}

// The device ended the old buffer with an entry that says so, where there was room for it, and
// counted it in any case. Whatever no poll has taken lies before that one, and moves up by one.
void CompletionQueue::move_to(const CompletionQueueView& view) {
    const auto place = [&](std::uint32_t counter) {
        return view.buffer + std::size_t{counter & (view.entries - 1)} * view.entry_bytes;
    };
    const std::uint32_t first = consumer_, old_entries = entries();
    for (; consumer_ - first < old_entries; ++consumer_) {
        const Cqe* const entry = finished();
        if (entry == nullptr || cqe_opcode(entry->op_own) == CqeOpcode::resized) break;
        const std::uint32_t to = consumer_ + 1;
        const std::byte* const from = ring_ + (std::size_t{consumer_ & mask_} << entry_log2_);
        const std::size_t last = view.entry_bytes - 1;
        std::memcpy(place(to), from, last);
        const bool phase = owner_phase(to, view.entries);
        place(to)[last] = (from[last] & ~std::byte{kOwnerMask}) | std::byte{phase};
    }
    consumer_ = first + 1;
    ring_ = view.buffer;
    mask_ = view.entries - 1;
    publish();
}

}  // namespace verbatim::mlx5

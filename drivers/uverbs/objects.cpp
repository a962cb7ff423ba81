// When an armed completion queue has its event.
#include "objects.hpp"

#include <verbatim/mlx5/formats.hpp>

namespace verbatim::uverbs {

// The arming word: [31:28] a number that changes with every event, [24] solicited completions only,
// [23:0] what the program has consumed. One event for each word, as soon as there is more than
// that.
void CompletionQueue::announce() noexcept {
    constexpr std::uint32_t kSolicitedOnly = 1u << 24;
    const mlx5::CompletionQueueView& view = engine_.view();
    if (channel_ == nullptr) return;
    const std::uint32_t word = softnic::read_record(view.doorbell_record + mlx5::kRecordArm);
    std::uint32_t answered = answered_.load(std::memory_order_relaxed);
    if (word == answered || word == kNeverArmed) return;
    if (!engine_.ring().written_since(word & mlx5::kConsumerIndexMask,
                                      (word & kSolicitedOnly) != 0))
        return;
    if (!answered_.compare_exchange_strong(answered, word)) return;
    // Without room the event is still owed; the engine thread comes back for it.
    if (!channel_->post(user_handle_, events_)) answered_.store(answered);
}

std::uint32_t CompletionQueue::end_events() {
    if (channel_ == nullptr) return 0;
    return events_.load() - channel_->withdraw(user_handle_);
}

}  // namespace verbatim::uverbs

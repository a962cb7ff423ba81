// What is due, by indices; and when, by the clock.
#include "completion_notifier.hpp"

#include <verbatim/mlx5/formats.hpp>

namespace verbatim::uverbs {
namespace {

// A program that leaves so many events unread that there is no room is looked after this often.
constexpr std::chrono::milliseconds kRetry{4};

// `index`, if it lies between `from` and `produced`; else `from`.
std::uint32_t later(std::uint32_t from, std::uint32_t index, std::uint32_t produced) noexcept {
    const auto distance = [from](std::uint32_t to) {
        return (to - from) & mlx5::kConsumerIndexMask;
    };
    return distance(index) <= distance(produced) ? index : from;
}

}  // namespace

CompletionNotifier::Look CompletionNotifier::look_late(const softnic::CompletionRing& ring,
                                                       Clock::time_point now) noexcept {
    const bool late = due() <= now;
    // Before the look: what another thread then still expects is what this look sees.
    if (late) due_.store(kNever);
    return look(ring, late);
}

CompletionNotifier::Look CompletionNotifier::look(const softnic::CompletionRing& ring,
                                                  bool late) noexcept {
    // The completion, or the arming, that the caller knows of was stored before. Either this look
    // sees the other one, or the other one's look sees this one's.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const volatile std::uint32_t* const record = ring.view().doorbell_record;
    for (;;) {
        State state = state_.load(std::memory_order_acquire);
        const std::uint32_t arming = softnic::read_record(record + mlx5::kRecordArm);
        if (arming == state.answered || arming == kNeverArmed) return {};
        const bool solicited = (arming & mlx5::kArmSolicited) != 0;
        const std::uint32_t consumed =
            softnic::read_record(record + mlx5::kRecordConsumer) & mlx5::kConsumerIndexMask;
        const std::uint32_t produced = ring.produced();
        const std::uint32_t from =
            later(later(consumed, arming & mlx5::kConsumerIndexMask, produced), state.announced,
                  produced);
        State next{arming, state.announced};
        if (const auto first = ring.first_written(from, solicited)) {
            // A program that has yet to poll what it was told of may poll this one, too.
            const bool polls_soon = later(consumed, state.announced, produced) != consumed;
            const auto wait = polls_soon
                                  ? Clock::duration(kPatience)
                                  : moderation_of((produced - consumed) & mlx5::kConsumerIndexMask);
            if (!late && wait != Clock::duration::zero()) return expect(wait);
            next.announced = (*first + 1) & mlx5::kConsumerIndexMask;
        } else {
            if (!ring.first_written(consumed, solicited)) return {};
            if (!late) return expect(kPatience);
        }
        // Before the claim: later times are of later armings.
        due_.store(kNever);
        if (state_.compare_exchange_strong(state, next)) return {Verdict::raise, arming};
    }
}

void CompletionNotifier::postpone(std::uint32_t arming) noexcept {
    State state = state_.load();
    const State before{kNeverArmed, (state.announced - 1) & mlx5::kConsumerIndexMask};
    if (state.answered == arming && state_.compare_exchange_strong(state, before)) expect(kRetry);
}

// The first expectation counts; a shorter one replaces it.
CompletionNotifier::Look CompletionNotifier::expect(Clock::duration within) noexcept {
    const Clock::rep then = (Clock::now() + within).time_since_epoch().count();
    Clock::rep due = due_.load();
    while (then < due)
        if (due_.compare_exchange_weak(due, then)) return {Verdict::expect, 0};
    return {};
}

// Zero: none.
CompletionNotifier::Clock::duration CompletionNotifier::moderation_of(
    std::uint32_t completions) const noexcept {
    const std::uint32_t enough = moderate_completions_.load(std::memory_order_relaxed);
    if (completions >= enough) [[likely]]
        return Clock::duration::zero();
    return std::chrono::nanoseconds(moderate_ns_.load(std::memory_order_relaxed));
}

}  // namespace verbatim::uverbs

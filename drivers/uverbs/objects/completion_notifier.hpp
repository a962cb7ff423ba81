// Decides when an armed completion queue raises an event. An arming is a word in the doorbell
// record: [31:28] a number that changes with every event that the program has read, [24] solicited
// completions only, [23:0] the consumer index at that time. One event answers one arming.
//
//   armed     an event is due with the first completion that is written at or behind the consumer
//             index and that no event has announced: at once, or as moderation delays it, or when
//             the program has polled what it was told of before, at the latest kPatience later;
//   told      all that the program has not polled was announced by events: an event is due when it
//             is still there kPatience later;
//   answered  until the word changes.
//
// So no completion has two events, unless the program leaves it unpolled, and each that is written
// after the arming has one at the latest when the program arms again. A program that polls one
// completion for each event, as perftest does, gets as many events as completions, however long it
// waits for a core between arming and polling. A card looks at the consumer index alone and raises
// an event for what such a program is about to poll; there an interrupt's latency hides that.
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "../../softqueue/completion_ring.hpp"

namespace verbatim::uverbs {

class CompletionNotifier {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Verdict : std::uint8_t {
        rest,   // nothing is due
        raise,  // one event, by the caller, the only one to be told so
        expect  // an event may be due at due(), sooner than it was before this look
    };
    struct Look {
        Verdict verdict = Verdict::rest;
        std::uint32_t arming = 0;  // of the event to raise
    };
    // How long a program that has its event may take until it polls.
    static constexpr std::chrono::milliseconds kPatience{100};
    // In the arming word until the program first arms: no driver writes this.
    static constexpr std::uint32_t kNeverArmed = ~std::uint32_t{0};

    // After a completion was written, after an arming, and after a poll that took something.
    Look look(const softnic::CompletionRing& ring) noexcept { return look(ring, false); }
    // When due() may be over. Threads: one at a time.
    Look look_late(const softnic::CompletionRing& ring, Clock::time_point now) noexcept;
    // There was no room for the event that a look asked for: it is due again soon.
    void postpone(std::uint32_t arming) noexcept;
    // When to look again. max(): when something happens.
    Clock::time_point due() const noexcept {
        return Clock::time_point(Clock::duration(due_.load()));
    }
    // Events wait for as many completions, or for the time since the first was seen; either 0: they
    // do not.
    void moderate(std::uint32_t completions, std::chrono::nanoseconds period) noexcept {
        moderate_completions_.store(completions);
        moderate_ns_.store(period.count());
    }

  private:
    // The last arming that had its event, and how far events have announced completions.
    struct alignas(8) State {
        std::uint32_t answered = kNeverArmed, announced = 0;
    };

    Look look(const softnic::CompletionRing& ring, bool late) noexcept;
    Look expect(Clock::duration within) noexcept;
    Clock::duration moderation_of(std::uint32_t completions) const noexcept;

    static constexpr Clock::rep kNever = Clock::time_point::max().time_since_epoch().count();

    std::atomic<State> state_{State{}};
    static_assert(std::atomic<State>::is_always_lock_free);
    std::atomic<Clock::rep> due_{kNever};
    std::atomic<std::uint32_t> moderate_completions_{0};
    std::atomic<std::int64_t> moderate_ns_{0};
};

}  // namespace verbatim::uverbs

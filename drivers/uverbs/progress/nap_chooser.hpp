// Chooses how long the engine thread sleeps after a round, by what rounds find and by what the
// program does itself. Threads: the engine thread, under the rounds' lock.
#pragma once

#include <chrono>
#include <cstdint>

#include "engine_rounds.hpp"
#include "event_queues.hpp"

namespace verbatim::uverbs {

class NapChooser {
  public:
    using Clock = std::chrono::steady_clock;
    using Nap = std::chrono::nanoseconds;

    // Both must stay.
    NapChooser(EngineRounds& rounds, EventQueues& queues) noexcept;

    // After each round. `polls` and `posts`: what the program has counted so far; `may_be_called`:
    // doorbells can be trapped.
    Nap choose(std::uint32_t polls, std::uint32_t posts, bool may_be_called) noexcept;
    // Where doorbells are noticed, after the last round before the sleep. `moved`: it found
    // requests; `direct`: the program may ring by itself.
    Nap choose_sleep(bool moved, bool direct) noexcept;
    // As the last choice found: the program polls by itself; the engine's rounds find requests that
    // no trap told of.
    bool program_polls() const noexcept { return program_polls_; }
    bool finds_requests() const noexcept { return finds_requests_; }

  private:
    bool has_moved() noexcept;
    Nap until_events(Nap nap) const noexcept;

    EngineRounds& rounds_;
    EventQueues& queues_;
    std::uint32_t polls_seen_ = 0, posts_seen_ = 0;
    std::uint64_t event_completions_seen_ = 0;
    Clock::time_point direct_until_;  // so long the program counts as one that posts by itself
    Nap timed_nap_;                   // the next one, if there is something to come back for
    bool program_polls_ = false;
    bool finds_requests_ = false;
};

}  // namespace verbatim::uverbs

// The patience of a lane decides, round by round, whether a wait spins or sleeps, and how long it
// sleeps where memory must be looked at by time. Threads: the lane's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <verbatim/core/config.hpp>
#include <verbatim/core/deadline.hpp>

namespace verbatim {

class LanePatience {
  public:
    explicit LanePatience(const Config::LaneSection& config) noexcept
        : mode_(config.mode), spin_(config.spin) {}
    LaneMode mode() const noexcept { return mode_; }

    // Whether anything has happened since the round before; `events`: the lane's count.
    bool is_news(std::uint64_t events) noexcept { return std::exchange(events_, events) != events; }
    // Reads the clock seldom: between, it says what it said last. `round` counts from 0.
    bool spins(unsigned round) noexcept {
        constexpr unsigned kRoundsPerClock = 16;
        if (mode_ != LaneMode::adaptive) return mode_ == LaneMode::busy;
        if (round == 0) {
            began_ = Clock::now();
            spins_ = true;
        } else if (round % kRoundsPerClock == 0 || !spins_) {
            spins_ = Clock::now() - began_ < spin_;
        }
        return spins_;
    }
    // A peer's answer to an arming takes one round of its device: a card's in microseconds. The
    // peer of a software NIC answers when its program polls, which may be much later; until then
    // memory is looked at by time, the first time soon, then later and later.
    std::chrono::milliseconds next_look() noexcept {
        return std::exchange(look_after_, std::min(look_after_ * 2, kLastLook));
    }
    void is_quiet() noexcept { look_after_ = kFirstLook; }

  private:
    static constexpr std::chrono::milliseconds kFirstLook{1}, kLastLook{16};
    const LaneMode mode_;
    const std::chrono::microseconds spin_;
    std::uint64_t events_ = 0;
    Clock::time_point began_{};
    bool spins_ = false;
    std::chrono::milliseconds look_after_{kFirstLook};
};

}  // namespace verbatim

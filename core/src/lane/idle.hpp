// The idle policy: a connection over which nothing has gone for [connect] idle_timeout is closed.
// Positions are compared by a timer of the lane; messages cost nothing. Threads: the lane's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <verbatim/core/deadline.hpp>

namespace verbatim {

// An idle watch knows since when nothing has moved.
class IdleWatch {
  public:
    // `activity`: grows with all that goes.
    bool is_idle(std::uint64_t activity, Clock::time_point now,
                 std::chrono::milliseconds timeout) noexcept {
        if (since_ == Clock::time_point{} || activity != activity_) {
            activity_ = activity;
            since_ = now;
        }
        return now - since_ >= timeout;
    }
    // What has gone since was the policy's own.
    void overlook(std::uint64_t activity) noexcept { activity_ = activity; }

  private:
    std::uint64_t activity_ = 0;
    Clock::time_point since_{};
};

// The times of what a lane does seldom: to look at descriptors, and for idle members.
class SeldomLooks {
  public:
    // 0: it never looks for idle members.
    explicit SeldomLooks(std::chrono::milliseconds idle_timeout) noexcept
        : idle_timeout_(idle_timeout),
          step_(std::max(idle_timeout / 4, std::chrono::milliseconds(1))) {}
    std::chrono::milliseconds idle_timeout() const noexcept { return idle_timeout_; }

    bool sockets_are_due(Clock::time_point now) noexcept {
        if (now - sockets_ < kSocketsEvery) return false;
        sockets_ = now;
        return true;
    }
    bool idle_is_due(Clock::time_point now) noexcept {
        if (idle_timeout_.count() == 0 || now < idle_) return false;
        idle_ = now + step_;
        return true;
    }
    // The time of a sleep (0: for ever), cut so that the look for idle members is not missed.
    std::chrono::milliseconds sleep(std::chrono::milliseconds time) const noexcept {
        using std::chrono::milliseconds;
        if (idle_timeout_.count() == 0) return time;
        const auto left =
            std::max(std::chrono::ceil<milliseconds>(idle_ - Clock::now()), milliseconds(1));
        return time.count() == 0 ? left : std::min(time, left);
    }

  private:
    // A system call costs as much as several polls; a peer's end may wait.
    static constexpr std::chrono::microseconds kSocketsEvery{50};
    const std::chrono::milliseconds idle_timeout_, step_;
    Clock::time_point sockets_{}, idle_{};
};

}  // namespace verbatim

// The retransmission timer of a requester: when packets are sent again, and when that is in vain.
// Its patience is what verbs' timeout and retry_cnt grant. Behind it everything is sent a last
// time, which has a time of its own to be answered: so a loss that is shorter never shows, and a
// process that was stopped asks once more. Owner: the flow. Threads: the one inside its gate.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "congestion_notices.hpp"

namespace verbatim::softnic {

class RetryTimer {
  public:
    // The first one is longer than the time after which an engine thread replaces a poller that has
    // gone. The last one leaves a peer that lives the time to get a core.
    static constexpr std::chrono::milliseconds kFirst{8}, kMost{256}, kLastAnswer{500};

    // 0, as at first: for ever. Any thread, at any time.
    void set_patience(std::chrono::nanoseconds patience) noexcept {
        patience_.store(patience, std::memory_order_relaxed);
    }
    // Packets go out behind none, or the peer's responder says something new of them.
    void restart(FlowTime now) noexcept {
        since_ = now;
        time_ = kFirst;
        last_ = false;
        deadline_ = now + time_;
    }
    // What is outstanding is sent again.
    void start(FlowTime now) noexcept {
        if (!last_) deadline_ = now + time_;
    }
    // Everything that came was taken. Expired: it is sent again.
    enum class State : std::uint8_t { runs, expired, in_vain };
    State look(FlowTime now) noexcept {
        if (now < deadline_) return State::runs;
        if (last_) return State::in_vain;
        time_ = std::min<std::chrono::nanoseconds>(2 * time_, kMost);
        const auto patience = patience_.load(std::memory_order_relaxed);
        last_ = patience.count() != 0 && now - since_ >= patience;
        deadline_ = now + (last_ ? kLastAnswer : time_);
        return State::expired;
    }

  private:
    std::atomic<std::chrono::nanoseconds> patience_{std::chrono::nanoseconds(0)};
    std::chrono::nanoseconds time_ = kFirst;
    FlowTime since_, deadline_;
    bool last_ = false;  // it was sent a last time
};

}  // namespace verbatim::softnic

// The congestion notices (CNP) of a flow: they tell the peer that its packets came with marks of
// congestion. Owner: the flow. Threads: the one inside its gate.
#pragma once

#include <chrono>

namespace verbatim::softnic {

using FlowTime = std::chrono::steady_clock::time_point;

class CongestionNotices {
  public:
    // That of DCQCN (Zhu et al., SIGCOMM 2015, section 3.1).
    static constexpr std::chrono::microseconds kInterval{50};

    // A valid packet of the peer had a mark.
    void note_mark() noexcept { marked_ = true; }
    // A notice is to be sent now. Marks soon after one are of the same congestion.
    bool take(FlowTime now) noexcept {
        if (!marked_) return false;
        marked_ = false;
        if (now < next_) return false;
        next_ = now + kInterval;
        return true;
    }

  private:
    bool marked_ = false;
    FlowTime next_{};
};

}  // namespace verbatim::softnic

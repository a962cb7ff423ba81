// The congestion window of a requester: how many of its packets may be on their way. It grows by
// one packet for each window that is acknowledged, and halves at losses and congestion notices.
// Owner: the flow. Threads: the one inside its gate.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbatim::softnic {

class CongestionWindow {
  public:
    static constexpr std::uint32_t kFirst = 32, kLeast = 2, kMost = 64;

    std::uint32_t packets() const noexcept { return packets_; }
    void grow(std::uint64_t acknowledged) noexcept {
        grown_ += static_cast<std::uint32_t>(std::min<std::uint64_t>(acknowledged, packets_));
        if (grown_ < packets_) return;
        grown_ = 0;
        packets_ = std::min(packets_ + 1, kMost);
    }
    // Packets up to the number `sent` were sent.
    void lose(std::uint64_t sent) noexcept {
        packets_ = std::max(packets_ / 2, kLeast);
        grown_ = 0;
        next_ = sent + 1;
    }
    // A notice came. It counts once a packet is acknowledged that was sent after the last halving:
    // earlier ones are of the congestion before.
    void take_notice(std::uint64_t acknowledged, std::uint64_t sent) noexcept {
        if (acknowledged >= next_) lose(sent);
    }

  private:
    std::uint32_t packets_ = kFirst, grown_ = 0;  // grown_: acknowledged since it grew
    std::uint64_t next_ = 0;                      // the packet after which a notice counts
};

}  // namespace verbatim::softnic

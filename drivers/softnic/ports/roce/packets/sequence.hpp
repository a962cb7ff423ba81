// Packet sequence numbers. Packets are counted from 1 in 64 bits; their PSN is that count
// behind the first one, in 24 bits. Threads: any; nothing changes.
#pragma once

#include <cstdint>

#include "packet.hpp"

namespace verbatim::softnic {

class SequenceSpace {
  public:
    SequenceSpace() = default;
    // `first`: the PSN of packet 1.
    explicit SequenceSpace(std::uint32_t first) noexcept : before_((first - 1) & kSequenceMask) {}

    std::uint32_t sequence_of(std::uint64_t number) const noexcept {
        return static_cast<std::uint32_t>(before_ + number) & kSequenceMask;
    }
    // The number nearest to `near` with this PSN; 0 and below: there is none.
    std::int64_t number_of(std::uint32_t sequence, std::uint64_t near) const noexcept {
        constexpr int kUnused = 8;
        const std::uint32_t ahead = (sequence - sequence_of(near)) & kSequenceMask;
        const auto distance = static_cast<std::int32_t>(ahead << kUnused) >> kUnused;
        return static_cast<std::int64_t>(near) + distance;
    }

  private:
    std::uint32_t before_ = 0;
};

}  // namespace verbatim::softnic

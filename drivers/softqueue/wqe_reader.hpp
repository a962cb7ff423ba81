// Reads one send WQE out of the ring, 16-byte unit by unit; units wrap at the ring's end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

namespace verbatim::softnic {

class WqeReader {
  public:
    WqeReader(const mlx5::QueuePairView& view, std::uint16_t index) noexcept
        : ring_(view.send_buffer),
          mask_(std::size_t{view.send_blocks} * mlx5::kBlockBytes - 1),
          start_(std::size_t{index} * mlx5::kBlockBytes) {}

    std::byte* at(std::size_t byte) const noexcept { return ring_ + ((start_ + byte) & mask_); }
    template <class Segment>
    Segment read(std::size_t unit) const noexcept {
        Segment segment;
        std::memcpy(&segment, at(unit * mlx5::kUnitBytes), sizeof segment);
        return segment;
    }
    // How many bytes from `byte` on lie side by side.
    std::size_t contiguous(std::size_t byte) const noexcept {
        return mask_ + 1 - ((start_ + byte) & mask_);
    }

  private:
    std::byte* ring_;
    std::size_t mask_, start_;
};

}  // namespace verbatim::softnic

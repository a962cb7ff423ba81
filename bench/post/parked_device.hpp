// A queue pair whose device never runs: ring, doorbell record and register page in ordinary memory.
// What is left of a post is the poster's own work, which is what this group measures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <verbatim/driver/queue_view.hpp>

namespace verbatim::bench {

class ParkedDevice {
  public:
    static constexpr std::uint32_t kBlocks = 256;
    static constexpr std::uint32_t kHalfBytes = 256;  // as on ConnectX

    mlx5::QueuePairView view() noexcept {
        mlx5::QueuePairView view;
        view.send_buffer = ring_.data();
        view.send_blocks = kBlocks;
        view.doorbell_record = record_.data();
        view.doorbell_register = register_page_.data() + 0x800;
        view.blueflame_bytes = kHalfBytes;
        view.number = 0x101;
        view.max_inline_bytes = 188;
        view.max_send_elements = 13;
        return view;
    }

  private:
    alignas(4096) std::array<std::byte, kBlocks * 64> ring_{};
    alignas(4096) std::array<std::byte, 4096> register_page_{};
    alignas(64) std::array<std::uint32_t, 2> record_{};
};

}  // namespace verbatim::bench

// The IP and UDP headers of a packet, which the kernel writes and takes off: for captures. Threads:
// any; nothing changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../tcp/meeting/stream_socket.hpp"

namespace verbatim::softnic {

class PacketHeaders {
  public:
    static constexpr std::size_t kMostBytes = 48;
    // Of packets one way between two sockets.
    PacketHeaders(const StreamPlace& from, const StreamPlace& to) noexcept;
    // As they came: otherwise those of a packet that has just left, and may be marked.
    void set_traffic(std::uint8_t traffic_class, std::uint8_t hops) noexcept;
    std::size_t ip_bytes() const noexcept { return ip_bytes_; }

    // Those of a datagram with so many bytes, in `into`. Returns what of it is used.
    std::span<const std::byte> write(std::array<std::byte, kMostBytes>& into,
                                     std::size_t datagram_bytes,
                                     std::uint16_t identification = 0) const noexcept;

  private:
    std::array<std::byte, kMostBytes> bytes_{};  // without lengths and checksum
    std::size_t ip_bytes_;
};

}  // namespace verbatim::softnic

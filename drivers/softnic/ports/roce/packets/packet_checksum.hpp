// The invariant checksum of RoCEv2 packets (ICRC): CRC-32 over eight bytes of ones, IP and UDP
// headers, and the packet, in which the fields that routers change are ones (InfiniBand
// Architecture Specification, annex A17.3.3). Threads: any; nothing changes that shows.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "../../tcp/meeting/stream_socket.hpp"
#include "crc32.hpp"

namespace verbatim::softnic {

// Of packets one way between two sockets. IPv4 headers have one identification, no options, and
// forbid fragments.
class PacketChecksum {
  public:
    static constexpr std::size_t kMostInRun = 15;  // of 4 KiB: in less than 64 KiB
    PacketChecksum() = default;
    PacketChecksum(const StreamPlace& from, const StreamPlace& to,
                   std::uint16_t identification = 0) noexcept;
    // Of peers that send runs of datagrams with so many bytes, whose identifications count from 0.
    // 0: they send none.
    static PacketChecksum with_runs(const StreamPlace& from, const StreamPlace& to,
                                    std::size_t datagram_bytes) noexcept;

    std::size_t run_bytes() const noexcept { return runs_.bytes; }
    // What this identification changes in the checksum of such a datagram.
    std::uint32_t change_by(std::size_t identification) const noexcept {
        return runs_.changes[identification];
    }
    // Of a packet in pieces, without its checksum; the first piece has the base header at least. As
    // it travels: little endian.
    std::uint32_t of(std::span<const iovec> pieces) const noexcept;
    // Whether that of a whole datagram is right, also as one of a run. False as well: it is too
    // short.
    bool fits(std::span<const std::byte> datagram) const noexcept;
    // With which identification it is right: its sender may have given it any. None: with no one,
    // or it is too short.
    std::optional<std::uint16_t> identification_of(
        std::span<const std::byte> datagram) const noexcept;

  private:
    static constexpr std::size_t kOnes = 8, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
    static constexpr std::size_t kBehindIdentification = kIpv4Bytes - 6 + kUdpBytes;
    struct Runs {
        std::size_t bytes = 0;
        std::array<std::uint32_t, kMostInRun> changes{};
    };
    std::optional<std::uint32_t> difference(std::span<const std::byte> datagram) const noexcept;
    void set_length(std::span<std::byte> header, std::size_t datagram_bytes) const noexcept;
    std::uint32_t of_header(std::size_t datagram_bytes) const noexcept;

    // Ones, IP and UDP header, in which the lengths are missing.
    std::array<std::byte, kOnes + kIpv6Bytes + kUdpBytes> header_{};
    std::size_t ip_bytes_ = 0;
    Runs runs_;
    // [63:32] bytes of the last datagram, [31:0] the sum of its header; atomic where it is used.
    alignas(8) mutable std::uint64_t last_ = 0;
};

}  // namespace verbatim::softnic

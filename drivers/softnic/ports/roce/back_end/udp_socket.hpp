// The back end over an unprivileged UDP socket, which is not connected: so IPv4 identification
// stays 0, and the checksum of packets can be computed before (docs/roce-port.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../../../host/descriptor.hpp"
#include "../../tcp/meeting/stream_socket.hpp"
#include "congestion_marks.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

// A socket at the address; the kernel chooses the port, which is stored. Throws
// Error(device_error). Control path.
Descriptor open_packet_socket(StreamPlace& place);
// The path MTU that the interface of this address carries, log2. Control path.
unsigned mtu_log2_at(const StreamPlace& place) noexcept;

// sendmmsg(): how many of the packets went out to the peer, or -1 and errno.
int send_packets(int socket, SocketName& peer, std::span<const PacketPieces> packets) noexcept;
// Takes what other kernels have said of packets that were sent.
void empty_error_queue(int socket) noexcept;

inline constexpr std::size_t kMostPacketsPerCall = 32;

class UdpSocket final : public PacketBackEnd {
  public:
    // A socket of open_packet_socket().
    UdpSocket(Descriptor socket, const StreamPlace& peer) noexcept;

    int file() const noexcept override { return socket_.get(); }
    std::size_t receive(std::span<std::byte> into, std::size_t each,
                        std::span<std::size_t> lengths) noexcept override;
    std::uint32_t marked() const noexcept override { return marked_; }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;
    std::uint32_t refusals() const noexcept override { return refusals_; }
    std::uint64_t foreign() const noexcept override { return foreign_; }

  private:
    // What receive() hands to the kernel: written once, so that a look that finds nothing costs the
    // call alone.
    struct Inbox {
        std::array<mmsghdr, kMostPacketsPerCall> messages{};
        std::array<iovec, kMostPacketsPerCall> pieces{};
        std::array<sockaddr_in6, kMostPacketsPerCall> names{};  // the longer of both families
        std::array<MarkRoom, kMostPacketsPerCall> rooms;
        const std::byte* start = nullptr;
    };
    void prepare(std::span<std::byte> into, std::size_t each) noexcept;
    void note_failure(int cause) noexcept;

    Descriptor socket_;
    SocketName peer_;
    Inbox inbox_;
    std::uint32_t marked_ = 0;
    std::uint32_t refusals_ = 0;
    std::uint64_t foreign_ = 0;
};

}  // namespace verbatim::softnic

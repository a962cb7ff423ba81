// The back end over an unprivileged UDP socket (packet_socket.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../../../host/descriptor.hpp"
#include "../../tcp/meeting/stream_socket.hpp"
#include "congestion_marks.hpp"
#include "packet_back_end.hpp"
#include "packet_socket.hpp"

namespace verbatim::softnic {

// Without its pieces. A name of no bytes: the socket is connected.
msghdr message_to(SocketName& peer) noexcept;
// sendmmsg(): how many of the packets went out to the peer, or -1 and errno. A name of no bytes:
// the socket is connected.
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
    bool sends_runs() const noexcept override { return runs_; }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;
    std::uint32_t refusals() const noexcept override { return refusals_; }
    std::uint64_t foreign() const noexcept override { return foreign_; }
    std::uint64_t unseen() const noexcept override {
        return sender_ ? dropped_datagrams(sender_.get()) : 0;
    }

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
    // Datagrams that come one at a time are received one at a time, which is quicker.
    struct Looks {
        bool dense = true;                     // the last one found something: there may be many
        std::uint32_t vain = 0;                // in a row that found nothing
        std::uint32_t unasked = kMostUnasked;  // datagrams since one was asked for its mark
    };
    // A mark costs 80 ns to read. So they are read of all that come together, of one that comes
    // behind a pause, and of every eighth of a conversation.
    static constexpr std::uint32_t kMostUnasked = 7, kPause = 64;
    void prepare(std::span<std::byte> into, std::size_t each) noexcept;
    int receive_one(std::size_t each) noexcept;
    std::size_t take(std::size_t index) noexcept;
    ssize_t send_one(PacketPieces packet) noexcept;
    ssize_t send_many(std::span<const PacketPieces> packets) noexcept;
    void note_failure(int cause) noexcept;
    const Descriptor& sender() const noexcept { return sender_ ? sender_ : socket_; }

    Descriptor socket_, sender_;  // empty: one does both
    SocketName peer_;
    SocketName to_;           // of packets that are sent; no bytes: the socket knows
    bool connected_ = false;  // to the peer: nothing else comes
    bool only_peer_ = false;  // nor is left of before
    bool runs_ = false;       // the kernel sends them
    Inbox inbox_;
    Looks looks_;
    std::uint32_t marked_ = 0;
    std::uint32_t refusals_ = 0;
    std::uint64_t foreign_ = 0;
};

}  // namespace verbatim::softnic

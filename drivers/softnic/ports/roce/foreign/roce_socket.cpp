// Packets of a socket.
#include "roce_socket.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/log.hpp>

#include "../../dpdk/ethernet_frames.hpp"
#include "../back_end/packet_socket.hpp"
#include "../back_end/udp_socket.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::size_t kEachPacket =
    (kMaxPacketBytes + kIpv4HeaderBytes + kUdpHeaderBytes + 63) / 64 * 64;

StreamPlace place_of(const sockaddr_in6& name) noexcept {
    StreamPlace place;
    if (name.sin6_family == AF_INET6) {
        std::memcpy(place.address.data(), &name.sin6_addr, place.address.size());
        place.port = ntohs(name.sin6_port);
        return place;
    }
    sockaddr_in in{};
    std::memcpy(&in, &name, sizeof in);
    place.address = loopback_address();  // mapped
    std::memcpy(&place.address[12], &in.sin_addr, sizeof in.sin_addr);
    place.port = ntohs(in.sin_port);
    return place;
}

class SocketSender final : public PacketSender {
  public:
    SocketSender(const Descriptor& socket, const StreamPlace& peer) noexcept
        : socket_(socket), place_(peer), peer_(name_of(peer)) {}

    std::size_t send(std::span<const PacketPieces> packets) noexcept override;

  private:
    void tell_once(int cause, std::size_t bytes) noexcept;

    const Descriptor& socket_;
    const StreamPlace place_;
    SocketName peer_;
    bool told_ = false;
};

// What another machine's kernel said of an earlier packet is no answer to this one.
std::size_t SocketSender::send(std::span<const PacketPieces> packets) noexcept {
    constexpr int kTries = 2;
    for (int i = 0; i != kTries; ++i) {
        const int sent = send_packets(socket_.get(), peer_, packets);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EAGAIN || errno == EINTR) return 0;
        tell_once(errno, packets[0].bytes());
        empty_error_queue(socket_.get());
    }
    return 1;  // the first one is lost
}

// Programs do not learn of packets that are lost, and would look for the cause for long.
void SocketSender::tell_once(int cause, std::size_t bytes) noexcept try {
    if (cause == ECONNREFUSED || std::exchange(told_, true)) return;
    log::warn("a packet of {} bytes to {} was not sent: {}{}", bytes, text_of(place_),
              errno_text(cause),
              cause == EMSGSIZE ? "; set [devices] mtu to what the network carries" : "");
} catch (const std::exception&) {
}

// The place has its port: the kernel chooses none.
Descriptor socket_at(StreamPlace place) { return open_packet_socket(place); }

}  // namespace

RoceSocket::RoceSocket(EventThread& thread, const std::array<std::uint8_t, 16>& address)
    : RoceEndpoint({address, kRocePort}, gate_),
      thread_(thread),
      socket_(socket_at(place())),
      raw_(open_raw_receiver(socket_, place())),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(kBatch * kEachPacket)) {
    enable_hops(socket_.get(), is_mapped(place()));
    number_ = thread_.add(*this);
    try {
        thread_.watch(inbound().get(), number_, true);
    } catch (...) {
        thread_.remove(number_);
        throw;
    }
}

RoceSocket::~RoceSocket() { thread_.remove(number_); }

std::unique_ptr<PacketBackEnd> RoceSocket::make_sender(const StreamPlace& peer) {
    return std::make_unique<SocketSender>(socket_, peer);
}

// Of the engine thread, which comes for those that nobody polls.
bool RoceSocket::ready() noexcept {
    drain(nullptr);
    thread_.watch_again(inbound().get(), number_, false);
    return false;
}

// What comes meanwhile makes the socket readable: the engine thread is told.
void RoceSocket::drain(const PacketInbox* own) noexcept {
    constexpr int kMostBatches = 8;
    if (!gate_.try_enter()) return;
    for (int i = 0; i != kMostBatches && take_batch(own); ++i) {
    }
    gate_.leave_for_good();
}

// False: there was not a whole batch.
bool RoceSocket::take_batch(const PacketInbox* own) noexcept {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> pieces;
    std::array<sockaddr_in6, kBatch> names;
    std::array<TrafficRoom<2>, kBatch> rooms;
    for (std::size_t i = 0; i != kBatch; ++i) {
        pieces[i] = {bytes_.get() + i * kEachPacket, kEachPacket};
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = &names[i];
        messages[i].msg_hdr.msg_namelen = sizeof names[i];
        rooms[i].give_to(messages[i].msg_hdr);
    }
    const int got = recvmmsg(inbound().get(), messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (got < 0 && errno != EAGAIN && errno != EINTR) empty_error_queue(socket_.get());
    for (std::size_t i = 0; got > 0 && i != static_cast<std::size_t>(got); ++i) {
        const std::span packet(bytes_.get() + i * kEachPacket, messages[i].msg_len);
        if ((messages[i].msg_hdr.msg_flags & MSG_TRUNC) != 0)
            drop();
        else
            take(packet, messages[i].msg_hdr, own);
    }
    return got == int{kBatch};
}

// From a raw socket, a whole packet; else a datagram.
void RoceSocket::take(std::span<std::byte> packet, const msghdr& message,
                      const PacketInbox* own) noexcept {
    bool known = false;
    if (FrameDatagram datagram; !raw_) {
        sockaddr_in6 name{};
        std::memcpy(&name, message.msg_name, sizeof name);
        known = deliver(packet, {place_of(name), traffic_of(message), {}}, own);
    } else if (parse_packet_to(packet, place().address, datagram)) {
        known = deliver(datagram.bytes, header_of(datagram), own);
    }
    if (!known) drop();
}

}  // namespace verbatim::softnic

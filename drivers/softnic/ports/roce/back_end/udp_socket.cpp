// Datagrams by sockets: batches by recvmmsg() and sendmmsg(), single ones by cheaper calls.
#include "udp_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "packet_runs.hpp"

namespace verbatim::softnic {

UdpSocket::UdpSocket(Descriptor socket, const StreamPlace& peer) noexcept
    : socket_(std::move(socket)), peer_(name_of(peer)), to_(peer_) {
    connected_ = connect_packet_socket(socket_, peer_, sender_);
    if (connected_ && !sender_) to_.bytes = 0;
    runs_ = can_send_runs(sender().get());
}

// What the peer's kernel said stays in a queue of its own, which is to be emptied. Any other cause
// shows as loss.
void UdpSocket::note_failure(int cause) noexcept {
    if (cause == ECONNREFUSED) ++refusals_;
    empty_error_queue(socket_.get());
    if (sender_) empty_error_queue(sender_.get());
}

void empty_error_queue(int socket) noexcept {
    std::array<std::byte, 256> text;
    iovec piece{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    while (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
    }
}

void UdpSocket::prepare(std::span<std::byte> into, std::size_t each) noexcept {
    inbox_.start = into.data();
    const std::size_t most = std::min(into.size() / each, kMostPacketsPerCall);
    for (std::size_t i = 0; i < most; ++i) {
        inbox_.pieces[i] = {into.data() + i * each, each};
        msghdr& header = inbox_.messages[i].msg_hdr;
        header = {};
        header.msg_iov = &inbox_.pieces[i];
        header.msg_iovlen = 1;
        header.msg_name = &inbox_.names[i];
        header.msg_namelen = sizeof inbox_.names[i];
        inbox_.rooms[i].give_to(header);
    }
}

// As recvmmsg() of one datagram.
int UdpSocket::receive_one(std::size_t each) noexcept {
    mmsghdr& one = inbox_.messages[0];
    if (!only_peer_ || looks_.vain > kPause || looks_.unasked == kMostUnasked) {
        const ssize_t got = recvmsg(socket_.get(), &one.msg_hdr, MSG_DONTWAIT);
        one.msg_len = static_cast<unsigned>(got);
        if (got >= 0) looks_.unasked = 0;
        return got < 0 ? -1 : 1;
    }
    const ssize_t got =
        recv(socket_.get(), inbox_.pieces[0].iov_base, each, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0) return -1;
    one.msg_len = static_cast<unsigned>(got);
    one.msg_hdr.msg_flags = static_cast<std::size_t>(got) > each ? MSG_TRUNC : 0;
    one.msg_hdr.msg_controllen = 0;
    ++looks_.unasked;
    return 1;
}

// Its length, or 0: it is not the peer's, or not whole.
std::size_t UdpSocket::take(std::size_t index) noexcept {
    mmsghdr& message = inbox_.messages[index];
    const bool whole = (message.msg_hdr.msg_flags & MSG_TRUNC) == 0;
    const bool own = only_peer_ || is_same_place(inbox_.names[index], peer_);
    marked_ |= std::uint32_t{is_marked(message.msg_hdr)} << index;
    message.msg_hdr.msg_namelen = sizeof inbox_.names[index];
    inbox_.rooms[index].give_to(message.msg_hdr);
    if (own) refusals_ = 0;
    if (whole && own && message.msg_len != 0) return message.msg_len;
    ++foreign_;
    return 0;
}

// Once a connected socket has been found empty, nothing is left of the time before.
std::size_t UdpSocket::receive(std::span<std::byte> into, std::size_t each,
                               std::span<std::size_t> lengths) noexcept {
    if (inbox_.start != into.data()) prepare(into, each);
    const std::size_t most = std::min({lengths.size(), into.size() / each, kMostPacketsPerCall});
    const int got = looks_.dense ? recvmmsg(socket_.get(), inbox_.messages.data(),
                                            static_cast<unsigned>(most), MSG_DONTWAIT, nullptr)
                                 : receive_one(each);
    const int cause = got < 0 ? errno : 0;
    if (cause != 0 && cause != EAGAIN && cause != EINTR) note_failure(cause);
    const std::size_t count = got > 0 ? static_cast<std::size_t>(got) : 0;
    marked_ = 0;
    for (std::size_t i = 0; i < count; ++i) lengths[i] = take(i);
    looks_.dense = count != 0;
    looks_.vain = count != 0 ? 0 : looks_.vain + 1;
    if (cause == EAGAIN) only_peer_ = connected_;
    return count;
}

msghdr message_to(SocketName& peer) noexcept {
    msghdr header{};
    header.msg_name = peer.bytes != 0 ? peer.get() : nullptr;
    header.msg_namelen = peer.bytes;
    return header;
}

int send_packets(int socket, SocketName& peer, std::span<const PacketPieces> packets) noexcept {
    std::array<mmsghdr, kMostPacketsPerCall> messages;
    const std::size_t most = std::min(packets.size(), kMostPacketsPerCall);
    for (std::size_t i = 0; i < most; ++i) {
        messages[i].msg_hdr = message_to(peer);
        messages[i].msg_hdr.msg_iov = const_cast<iovec*>(packets[i].data());
        messages[i].msg_hdr.msg_iovlen = packets[i].size();
    }
    return sendmmsg(socket, messages.data(), static_cast<unsigned>(most),
                    MSG_DONTWAIT | MSG_NOSIGNAL);
}

// As sendmmsg() of one packet. In one piece, which is quicker: the kernel reads each piece's
// address before it reads the piece.
ssize_t UdpSocket::send_one(PacketPieces packet) noexcept {
    constexpr std::size_t kShort = 512;
    std::array<std::byte, kShort> whole;
    std::size_t bytes = 0;
    for (const iovec& piece : packet) {
        if (piece.iov_len > kShort - bytes) return send_packets(sender().get(), to_, {&packet, 1});
        std::memcpy(whole.data() + bytes, piece.iov_base, piece.iov_len);
        bytes += piece.iov_len;
    }
    const ssize_t sent = sendto(sender().get(), whole.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                                to_.bytes != 0 ? to_.get() : nullptr, to_.bytes);
    return sent < 0 ? -1 : 1;
}

// A route may forbid what the socket allows: without checksums by the device, say.
ssize_t UdpSocket::send_many(std::span<const PacketPieces> packets) noexcept {
    if (runs_) {
        const int sent = send_runs(sender().get(), to_, packets);
        if (sent >= 0 || (errno != EIO && errno != EINVAL && errno != EMSGSIZE)) return sent;
        runs_ = false;
    }
    return send_packets(sender().get(), to_, packets);
}

std::size_t UdpSocket::send(std::span<const PacketPieces> packets) noexcept {
    const ssize_t sent = packets.size() == 1 ? send_one(packets[0]) : send_many(packets);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EINTR) return 0;
    note_failure(errno);
    return 1;  // the first one is lost
}

}  // namespace verbatim::softnic

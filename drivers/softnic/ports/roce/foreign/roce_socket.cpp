// Packets find their queue pairs.
#include "roce_socket.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include <verbatim/driver/log.hpp>

#include "../back_end/packet_socket.hpp"
#include "../back_end/udp_socket.hpp"
#include "../packets/packet_checksum.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::size_t kEachPacket = (kMaxPacketBytes + 63) / 64 * 64;

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

}  // namespace

RoceSocket::RoceSocket(EventThread& thread, const std::array<std::uint8_t, 16>& address)
    : thread_(thread),
      place_{address, kRocePort},
      socket_(open_packet_socket(place_)),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(kBatch * kEachPacket)) {
    enable_hops(socket_.get(), is_mapped(place_));
    number_ = thread_.add(*this);
    thread_.watch(socket_.get(), number_, true);
}

RoceSocket::~RoceSocket() { thread_.remove(number_); }

void RoceSocket::add(std::uint32_t queue_pair, PacketInbox& inbox) {
    gate_.enter_waiting();
    try {
        inboxes_[queue_pair] = &inbox;
    } catch (...) {
        gate_.leave_for_good();
        throw;
    }
    gate_.leave_for_good();
}

// In a forked child the gate may be closed for ever, and nobody comes.
void RoceSocket::remove(std::uint32_t queue_pair) noexcept {
    if (generation_ != fork_generation()) return;
    gate_.enter_waiting();
    inboxes_.erase(queue_pair);
    gate_.leave_for_good();
}

// Of the engine thread, which comes for those that nobody polls.
bool RoceSocket::ready() noexcept {
    drain(nullptr);
    thread_.watch_again(socket_.get(), number_, false);
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
    const int got = recvmmsg(socket_.get(), messages.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (got < 0 && errno != EAGAIN && errno != EINTR) empty_error_queue(socket_.get());
    for (std::size_t i = 0; got > 0 && i != static_cast<std::size_t>(got); ++i) {
        const bool whole = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0;
        const std::span datagram(bytes_.get() + i * kEachPacket, messages[i].msg_len);
        if (!whole ||
            !deliver(datagram, {place_of(names[i]), traffic_of(messages[i].msg_hdr)}, own))
            dropped_.store(dropped() + 1, std::memory_order_relaxed);
    }
    return got == int{kBatch};
}

// False: nobody gets it.
bool RoceSocket::deliver(std::span<const std::byte> datagram, const Header& from,
                         const PacketInbox* own) noexcept {
    if (datagram.size() < sizeof(BaseHeader) + kChecksumBytes) return false;
    BaseHeader base;
    std::memcpy(&base, datagram.data(), sizeof base);
    const auto found = inboxes_.find(base.queue_pair.native() & kSequenceMask);
    if (found == inboxes_.end()) return false;
    PacketInbox& inbox = *found->second;
    if (!inbox.takes_from(from.source.address)) return false;
    const auto identification = PacketChecksum(from.source, place_).identification_of(datagram);
    if (!identification || !inbox.put(datagram, {from.source.address, from.source.port,
                                                 *identification, from.traffic}))
        return false;
    if (&inbox != own) inbox.signal();
    return true;
}

std::shared_ptr<RoceSocket> RoceSockets::at(EventThread& thread,
                                            const std::array<std::uint8_t, 16>& address) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<RoceSocket>& known = sockets_[address];
    std::shared_ptr<RoceSocket> socket = known.lock();
    if (socket == nullptr) {
        socket = std::make_shared<RoceSocket>(thread, address);
        known = socket;
    }
    return socket;
}

}  // namespace verbatim::softnic

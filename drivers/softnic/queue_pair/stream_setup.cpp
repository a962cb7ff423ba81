// Meeting and ending of streams.
#include "stream_setup.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <verbatim/driver/log.hpp>

#include "../host/link_message.hpp"
#include "../ports/roce/back_end/packet_probe.hpp"
#include "../ports/roce/back_end/packet_socket.hpp"
#include "../ports/roce/foreign/foreign_packets.hpp"

namespace verbatim::softnic {
namespace {

FlowEnd end_of(const QueuePairAddress& address) noexcept {
    const std::uint16_t port = address.packet_port != 0 ? address.packet_port : address.stream_port;
    return {
        {address.stream_address, port}, address.number, address.packet_sequence & kSequenceMask};
}

}  // namespace

void StreamSetup::decline() noexcept {
    const std::lock_guard lock(mutex_);
    if (token_ != StreamToken{}) wires_.streams.doors().withdraw(std::exchange(token_, {}));
    packets_.reset();
}

void StreamSetup::tell(QueuePairAddress& address) {
    wires_.streams.tell(address, local_);
    address.reads_answered = kQuestions;
    const std::lock_guard lock(mutex_);
    if (wires_.streams.offers_packets()) tell_packets(address);
    if (wires_.streams.offered() && token_ == StreamToken{})
        token_ = wires_.streams.doors().invite();
    address.stream_token = token_;
}

// Under mutex_.
void StreamSetup::open_packets(std::uint32_t queue_pair) {
    PacketSocket fresh;
    if (const auto& link = wires_.packets.link()) {
        fresh.door = std::make_unique<LinkDoor>(link, queue_pair);
        fresh.place = fresh.door->place();
        fresh.mtu_log2 = link->mtu_log2();
    } else {
        fresh.place.address = local_ == decltype(local_){} ? loopback_address() : local_;
        fresh.socket = open_packet_socket(fresh.place);
        fresh.mtu_log2 = mtu_log2_at(fresh.place);
    }
    const Nonce random = random_nonce();
    std::memcpy(&fresh.first_sequence, random.data(), sizeof fresh.first_sequence);
    fresh.first_sequence &= kSequenceMask;
    packets_ = std::make_unique<PacketSocket>(std::move(fresh));
}

// Under mutex_. The same until the queue pair is reset, though a flow may have the socket by then.
void StreamSetup::tell_packets(QueuePairAddress& address) {
    const bool alone = wires_.streams.must_have_packets();
    if (packets_ == nullptr) try {
            open_packets(address.number);
        } catch (const Error& error) {
            if (alone) throw;
            log::info("the udp port is not offered: {}", error.what());
            address.ports &= static_cast<std::uint8_t>(~kUdpOffered);
            return;
        }
    address.stream_address = packets_->place.address;
    (alone ? address.stream_port : address.packet_port) = packets_->place.port;
    address.packet_sequence = packets_->first_sequence;
    address.mtu_log2 = static_cast<std::uint8_t>(packets_->mtu_log2);
}

std::unique_ptr<PacketBackEnd> StreamSetup::take_back_end(const StreamPlace& peer) {
    const std::lock_guard lock(mutex_);
    if (packets_ != nullptr && packets_->door != nullptr)
        return std::make_unique<LinkBackEnd>(std::move(packets_->door), peer);
    if (packets_ == nullptr || !packets_->socket)
        throw Error(Errc::invalid_argument, "packet socket", "the queue pair has given it away",
                    "reset() the queue pair first");
    return std::make_unique<UdpSocket>(std::move(packets_->socket), peer);
}

void StreamSetup::settle(PortChoice& choice, const QueuePairAddress& own,
                         const QueuePairAddress& peer, Instant deadline) {
    if (!choice.unsure) return;
    const std::lock_guard lock(mutex_);
    if (packets_ == nullptr || !packets_->socket) return;  // the flow says so
    if (packets_reach(packets_->socket, end_of(own), end_of(peer), deadline)) return;
    packets_->socket = {};
    choice.port = PortKind::tcp;
    choice.reason += ", and answered no packet";
}

StreamSetup::Meeting StreamSetup::meet(PortKind port, const QueuePairAddress& own,
                                       const QueuePairAddress& peer, Instant deadline,
                                       const PeerStream::Driver& driver) {
    Meeting meeting;
    ChannelSender ring(shared_.connection.incoming.lend());
    const std::size_t questions = peer.reads_answered == 0 ? 1 : peer.reads_answered;
    if (port == PortKind::udp) {
        begin_flow(meeting, std::move(ring), own, peer);
        meeting.peer->watch(wires_.streams.thread(), driver, deadline);
        meeting.peer->attach({}, Wire::Origin::accepted);
        return meeting;
    }
    auto stream = std::make_unique<Stream>(std::move(ring), questions, shared_.failure.text);
    meeting.stream = stream.get();
    meeting.peer = std::make_unique<PeerStream>(std::move(stream));
    meeting.peer->watch(wires_.streams.thread(), driver, deadline);
    try {
        wires_.streams.doors().meet(own, peer, deadline, *meeting.peer);
    } catch (...) {
        decline();
        throw;
    }
    return meeting;
}

void StreamSetup::begin_flow(Meeting& meeting, ChannelSender ring, const QueuePairAddress& own,
                             const QueuePairAddress& peer) {
    FlowOptions options{.own = end_of(own), .peer = end_of(peer)};
    const unsigned least = std::min<unsigned>(own.mtu_log2, peer.mtu_log2);
    options.mtu = std::size_t{1} << std::clamp(least, kMinMtuLog2, kMaxMtuLog2);
    options.questions = peer.reads_answered == 0 ? 1 : peer.reads_answered;
    options.timeout = wires_.packets.timeout();
    auto back_end = wires_.packets.over(take_back_end(options.peer.place), options.own.place,
                                        options.peer.place);
    auto flow = std::make_unique<PacketFlow>(std::move(back_end), std::move(ring), options,
                                             shared_.failure.text);
    meeting.flow = flow.get();
    meeting.peer = std::make_unique<PeerStream>(std::move(flow));
}

StreamSetup::Meeting StreamSetup::meet_foreign(const FlowOptions& options,
                                               const PeerStream::Driver& driver) {
    Meeting meeting;
    auto endpoint =
        wires_.endpoints.at(wires_.packets, wires_.streams.thread(), options.own.place.address);
    auto back_end =
        wires_.packets.over(std::make_unique<ForeignPackets>(
                                std::move(endpoint), options.own.queue_pair, options.peer.place),
                            options.own.place, options.peer.place);
    auto flow = std::make_unique<PacketFlow>(std::move(back_end),
                                             ChannelSender(shared_.connection.incoming.lend()),
                                             options, shared_.failure.text);
    meeting.flow = flow.get();
    meeting.peer = std::make_unique<PeerStream>(std::move(flow));
    meeting.peer->watch(wires_.streams.thread(), driver, Instant::max());
    meeting.peer->attach({}, Wire::Origin::accepted);
    return meeting;
}

void StreamSetup::bind(std::unique_ptr<PeerStream> stream) noexcept {
    stream_ = std::move(stream);
    shared_.connection.stream.store(stream_.get(), std::memory_order_release);
}

void StreamSetup::unwatch() noexcept {
    decline();
    if (stream_ != nullptr) stream_->unwatch();
}

void StreamSetup::forget() noexcept {
    shared_.connection.stream.store(nullptr, std::memory_order_release);
    stream_ = nullptr;
}

}  // namespace verbatim::softnic

// Probes and their answers.
#include "packet_probe.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include <verbatim/driver/deadline.hpp>

#include "../packets/packet.hpp"
#include "../packets/packet_checksum.hpp"
#include "packet_socket.hpp"
#include "udp_socket.hpp"

namespace verbatim::softnic {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kUnheard{250}, kHeard{2000};
constexpr std::chrono::milliseconds kFirstProbePause{2}, kLongestProbePause{20};

class ProbeSocket {
  public:
    ProbeSocket(const Descriptor& socket, const FlowEnd& own, const FlowEnd& peer) noexcept
        : socket_(socket),
          own_(own),
          peer_(peer),
          name_(name_of(peer.place)),
          outgoing_(own.place, peer.place),
          incoming_(peer.place, own.place) {}

    void send(bool asks) noexcept;
    enum class Heard : std::uint8_t { nothing, question, answer, refusal };
    Heard receive() noexcept;

  private:
    struct Probe {
        BaseHeader base;
        ProbeHeader body;
        std::uint32_t checksum;
    };
    static_assert(sizeof(Probe) == sizeof(BaseHeader) + sizeof(ProbeHeader) + kChecksumBytes);
    Heard judge(std::span<const std::byte> datagram) const noexcept;

    const Descriptor& socket_;
    const FlowEnd& own_;
    const FlowEnd& peer_;
    SocketName name_;
    const PacketChecksum outgoing_, incoming_;
};

// What fails shows as silence.
void ProbeSocket::send(bool asks) noexcept {
    Probe probe{};
    probe.base.opcode = static_cast<std::uint8_t>(PacketOpcode::probe);
    probe.base.flags = kMigratedPacket;
    probe.base.partition = mlx5::be16(kDefaultPartition);
    probe.base.queue_pair = mlx5::be32(peer_.queue_pair);
    probe.body.asks = mlx5::be32(asks ? 1u : 0u);
    const iovec piece{&probe, sizeof probe - sizeof probe.checksum};
    probe.checksum = outgoing_.of(std::span(&piece, 1));
    if (sendto(socket_.get(), &probe, sizeof probe, MSG_NOSIGNAL | MSG_DONTWAIT, name_.get(),
               name_.bytes) < 0)
        return;
}

// Another packet comes from a flow, which its owner has made because this side had answered.
ProbeSocket::Heard ProbeSocket::judge(std::span<const std::byte> datagram) const noexcept {
    WirePacket packet;
    if (!parse_packet(datagram, kMaxPacketPayload, packet) ||
        packet.queue_pair != own_.queue_pair || !incoming_.fits(datagram))
        return Heard::nothing;
    if (packet.opcode != PacketOpcode::probe) return Heard::answer;
    return packet.read<ProbeHeader>().asks.native() != 0 ? Heard::question : Heard::answer;
}

ProbeSocket::Heard ProbeSocket::receive() noexcept {
    std::array<std::byte, kMaxPacketBytes> bytes;
    sockaddr_in6 from{};
    socklen_t length = sizeof from;
    const ssize_t count = recvfrom(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &length);
    if (count < 0) {
        const bool refused = errno == ECONNREFUSED;
        if (refused) empty_error_queue(socket_.get());
        return refused ? Heard::refusal : Heard::nothing;
    }
    if (!is_same_place(from, name_)) return Heard::nothing;
    return judge(std::span(bytes.data(), static_cast<std::size_t>(count)));
}

}  // namespace

bool packets_reach(const Descriptor& socket, const FlowEnd& own, const FlowEnd& peer,
                   Instant deadline) noexcept {
    using Heard = ProbeSocket::Heard;
    ProbeSocket probe(socket, own, peer);
    auto until = std::min<Instant>(deadline, Clock::now() + kUnheard);
    bool heard = false;
    for (auto pause = kFirstProbePause; Clock::now() < until;
         pause = std::min(2 * pause, kLongestProbePause)) {
        probe.send(true);
        pollfd entry{socket.get(), POLLIN, 0};
        poll(&entry, 1, static_cast<int>(pause.count()));
        if (entry.revents == 0) continue;
        const Heard what = probe.receive();
        if (what == Heard::answer) return true;
        if (what == Heard::refusal) return false;
        if (what != Heard::question) continue;
        probe.send(false);
        if (!std::exchange(heard, true)) until = std::min<Instant>(deadline, Clock::now() + kHeard);
    }
    return false;
}

}  // namespace verbatim::softnic

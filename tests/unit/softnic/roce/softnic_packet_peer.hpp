// A peer of the udp port that a test plays by itself: a UDP socket that sends whatever packets the
// test makes, and shows those that come back.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "ports/roce/back_end/packet_socket.hpp"
#include "ports/roce/packets/packet.hpp"
#include "ports/roce/packets/packet_checksum.hpp"
#include "queue_pair.hpp"
#include "softnic_end.hpp"

namespace verbatim::softnic::test {

inline EndOptions packet_end_options() {
    EndOptions options;
    options.device.port = PortKind::udp;
    return options;
}

// What came to the peer.
struct Arrived {
    std::vector<std::byte> bytes;
    WirePacket packet;
    int traffic_class = -1;  // of its IP header

    std::uint8_t syndrome() const {
        return static_cast<std::uint8_t>(packet.read<AnswerHeader>().word.native() >> 24);
    }
};

class PacketPeer {
  public:
    static constexpr std::size_t kMtu = 256;
    static constexpr std::uint32_t kNumber = 0x777, kFirst = 0xfffffe;  // wraps soon

    // The end's peer from now on. That end is connected; or it receives only, as verbs have it in
    // the state before the last, and takes this one for no software NIC.
    enum class Meets : std::uint8_t { connected, receiver };
    // `mtu`: of the path to a receiver.
    explicit PacketPeer(End& end, Meets meets = Meets::connected, std::size_t mtu = kMtu)
        : end_(end), mtu_(mtu) {
        socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int buffer = 1 << 20;
        setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        const int told = 1;
        setsockopt(socket_, IPPROTO_IP, IP_RECVTOS, &told, sizeof told);
        const int whole = IP_PMTUDISC_DO;  // identification 0, as the checksums suppose
        setsockopt(socket_, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof own;
        EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&own), bytes), 0);
        EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &bytes), 0);
        ends_ = end.queue_pair->address();
        place_ = {loopback_address(), ntohs(own.sin_port)};
        meets == Meets::connected ? connect() : begin_receiving();
        const StreamPlace there{ends_.stream_address, ends_.stream_port};
        out_ = PacketChecksum(place_, there);
        // Others are sent no runs.
        const std::size_t longest = sizeof(BaseHeader) + kMtu + kChecksumBytes;
        in_ = PacketChecksum::with_runs(there, place_, meets == Meets::connected ? longest : 0);
    }
    ~PacketPeer() { close(socket_); }
    PacketPeer(const PacketPeer&) = delete;
    PacketPeer& operator=(const PacketPeer&) = delete;

    // The PSN of the peer's nth packet, and of the end's, from 0.
    static std::uint32_t own(std::uint32_t nth) { return (kFirst + nth) & kSequenceMask; }
    std::uint32_t ends(std::uint32_t nth) const {
        return (ends_.packet_sequence + nth) & kSequenceMask;
    }

    std::vector<std::byte> make(PacketOpcode opcode, std::uint32_t sequence,
                                std::span<const std::byte> extended = {},
                                std::span<const std::byte> payload = {}) const {
        BaseHeader base;
        base.opcode = static_cast<std::uint8_t>(opcode);
        const std::size_t padding = -payload.size() & 3;
        base.flags = static_cast<std::uint8_t>(padding << 4);
        base.partition = mlx5::be16(kDefaultPartition);
        base.queue_pair = mlx5::be32(ends_.number);
        base.sequence = mlx5::be32(sequence | kAsksForAcknowledgement);
        std::vector<std::byte> bytes(sizeof base);
        std::memcpy(bytes.data(), &base, sizeof base);
        bytes.insert(bytes.end(), extended.begin(), extended.end());
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        bytes.resize(bytes.size() + padding);
        return bytes;
    }
    // Of packets from now on: their traffic class, of which the lower two bits are ECN.
    void set_traffic_class(int value) const {
        EXPECT_EQ(setsockopt(socket_, IPPROTO_IP, IP_TOS, &value, sizeof value), 0);
    }
    void send_raw(std::span<const std::byte> bytes) const {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(ends_.stream_port);
        std::memcpy(&to.sin_addr, &ends_.stream_address[12], sizeof to.sin_addr);
        EXPECT_EQ(sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to),
                         sizeof to),
                  static_cast<ssize_t>(bytes.size()));
    }
    // With its checksum.
    void send(std::vector<std::byte> bytes) const { send_raw(sealed(std::move(bytes), out_)); }
    static std::vector<std::byte> sealed(std::vector<std::byte> bytes,
                                         const PacketChecksum& checksum) {
        const iovec piece{bytes.data(), bytes.size()};
        const std::uint32_t sum = checksum.of(std::span(&piece, 1));
        bytes.resize(bytes.size() + sizeof sum);
        std::memcpy(bytes.data() + piece.iov_len, &sum, sizeof sum);
        return bytes;
    }
    // Where the peer is, and the end.
    const StreamPlace& place() const { return place_; }
    StreamPlace ends_place() const { return {ends_.stream_address, ends_.stream_port}; }
    template <class Header>
    void send(PacketOpcode opcode, std::uint32_t sequence, const Header& extended,
              std::span<const std::byte> payload = {}) const {
        send(make(opcode, sequence, std::as_bytes(std::span(&extended, 1)), payload));
    }
    void answer(std::uint32_t sequence, std::uint8_t syndrome) const {
        send(PacketOpcode::acknowledge, sequence,
             AnswerHeader{mlx5::be32(std::uint32_t{syndrome} << 24)});
    }
    // Of the end's memory.
    RemoteHeader remote(std::size_t offset, std::size_t bytes) const {
        return {SplitWord(reinterpret_cast<std::uint64_t>(end_.at(offset))),
                mlx5::be32(end_.region->remote_key()),
                mlx5::be32(static_cast<std::uint32_t>(bytes))};
    }

    // The next packet but for states, while the end is polled; none in a while: the test fails.
    Arrived next() {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (std::chrono::steady_clock::now() < deadline)
            if (auto arrived = look()) return *std::move(arrived);
        ADD_FAILURE() << "no packet";
        return {std::vector<std::byte>(64), {}, 0};
    }
    // The next one with this opcode; others are passed over.
    Arrived next(PacketOpcode opcode) {
        for (int i = 0; i < 1000; ++i) {
            Arrived arrived = next();
            if (arrived.packet.opcode == opcode || testing::Test::HasFailure()) return arrived;
        }
        ADD_FAILURE() << "no such packet";
        return {};
    }
    // A packet, if one is there; else polls the end.
    std::optional<Arrived> look() {
        Arrived arrived{std::vector<std::byte>(kMaxPacketBytes), {}, 0};
        const ssize_t got = receive(arrived);
        if (got <= 0) {
            for (const mlx5::Completion& found : end_.poll()) seen.push_back(found);
            return std::nullopt;
        }
        arrived.bytes.resize(static_cast<std::size_t>(got));
        EXPECT_TRUE(in_.fits(arrived.bytes));
        EXPECT_TRUE(parse_packet(arrived.bytes, mtu_, arrived.packet));
        EXPECT_EQ(arrived.packet.queue_pair, kNumber);
        if (arrived.packet.opcode == PacketOpcode::state) {
            states.push_back(arrived.packet.read<StateHeader>());
            return std::nullopt;
        }
        return arrived;
    }
    // Whatever is on its way is executed: the end has acknowledged a write behind it. Returns how
    // many sequence NAKs came before.
    int settle(std::uint32_t sequence) {
        send(PacketOpcode::write_only, sequence, remote(0, 8), pattern(8));
        int naks = 0;
        while (!testing::Test::HasFailure()) {
            const Arrived arrived = next(PacketOpcode::acknowledge);
            naks += arrived.syndrome() == kWrongSequence ? 1 : 0;
            if (arrived.packet.sequence == sequence && arrived.syndrome() == kAcknowledged) break;
        }
        return naks;
    }

    std::vector<mlx5::Completion> seen;  // of the end
    std::vector<StateHeader> states;     // that came

  private:
    void connect() const {
        QueuePairAddress address = ends_;
        address.number = kNumber;
        address.mtu_log2 = 8;
        address.packet_sequence = kFirst;
        address.stream_port = place_.port;
        end_.queue_pair->connect(address, 1000);
    }
    // At an address that no other process of a test has.
    void begin_receiving() {
        const auto process = static_cast<std::uint32_t>(getpid());
        for (std::size_t i = 0; i != 3; ++i)
            ends_.stream_address[13 + i] = static_cast<std::uint8_t>(process >> 8 * i);
        ends_.stream_port = kRocePort;
        FlowOptions options{.own = {{ends_.stream_address, kRocePort}},
                            .peer = {place_, kNumber, kFirst},
                            .mtu = mtu_,
                            .foreign = true};
        static_cast<QueuePair&>(*end_.queue_pair).states().receive_packets(options);
    }
    ssize_t receive(Arrived& into) const {
        alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> told{};
        iovec piece{into.bytes.data(), into.bytes.size()};
        msghdr message{};
        message.msg_iov = &piece, message.msg_iovlen = 1;
        message.msg_control = told.data(), message.msg_controllen = told.size();
        const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT);
        const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
        if (header != nullptr && header->cmsg_type == IP_TOS)
            into.traffic_class = *CMSG_DATA(header);
        return got;
    }

    End& end_;
    const std::size_t mtu_;
    int socket_ = -1;
    QueuePairAddress ends_;
    StreamPlace place_;
    PacketChecksum out_, in_;
};

// Somebody else on the machine, at an address of the loopback.
class Forger {
  public:
    explicit Forger(std::array<std::uint8_t, 4> address) : place_{loopback_address(), 0} {
        std::copy(address.begin(), address.end(), place_.address.begin() + 12);
        socket_ = open_packet_socket(place_);
    }
    const StreamPlace& place() const { return place_; }
    void send(const StreamPlace& to, std::span<const std::byte> packet) const {
        SocketName name = name_of(to);
        EXPECT_EQ(sendto(socket_.get(), packet.data(), packet.size(), 0, name.get(), name.bytes),
                  static_cast<ssize_t>(packet.size()));
    }

  private:
    StreamPlace place_;
    Descriptor socket_;
};

}  // namespace verbatim::softnic::test

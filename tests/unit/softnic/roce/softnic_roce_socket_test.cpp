// The RoCE endpoint over sockets: with a raw one packets show which identification they have.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "ports/roce/back_end/packet_socket.hpp"
#include "ports/roce/foreign/foreign_packets.hpp"
#include "ports/roce/foreign/roce_socket.hpp"
#include "ports/roce/packets/packet_checksum.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr std::uint32_t kNumber = 0x1234;

// Whether sockets of this thread may be raw, for the life of this.
class RawSockets {
  public:
    explicit RawSockets(bool allowed) {
        syscall(SYS_capget, &header_, before_.data());
        auto wanted = before_;
        constexpr std::uint32_t kBit = 1u << CAP_NET_RAW;
        usable_ = (before_[0].permitted & kBit) != 0;
        if (allowed && usable_) wanted[0].effective |= kBit;
        if (!allowed) wanted[0].effective &= ~kBit;
        syscall(SYS_capset, &header_, wanted.data());
    }
    ~RawSockets() { syscall(SYS_capset, &header_, before_.data()); }
    RawSockets(const RawSockets&) = delete;
    RawSockets& operator=(const RawSockets&) = delete;

    bool usable() const { return usable_; }

  private:
    __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> before_{};
    bool usable_ = false;
};

// Sends packets to the queue pair as a card does.
class Card {
  public:
    Card(const StreamPlace& own, const StreamPlace& peer) : own_(own), peer_(peer) {
        sockaddr_in name = name_of(own);
        EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
        const int probe = IP_PMTUDISC_DO;
        setsockopt(socket_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    }

    // A checksum for one identification in a packet that has another, 0.
    void send_with_checksum_of(std::uint16_t identification) {
        const auto packet = packet_with(identification);
        sockaddr_in to = name_of(peer_);
        EXPECT_EQ(sendto(socket_.get(), packet.data(), packet.size(), 0,
                         reinterpret_cast<sockaddr*>(&to), sizeof to),
                  static_cast<ssize_t>(packet.size()));
    }
    // Both the same. The thread may have a raw socket.
    void send_with_identification(std::uint16_t identification) {
        const auto packet = packet_with(identification);
        struct {
            iphdr ip;
            udphdr udp;
        } head{};
        head.ip.version = 4;
        head.ip.ihl = 5;
        head.ip.id = htons(identification);
        head.ip.frag_off = htons(IP_DF);
        head.ip.ttl = 64;
        head.ip.protocol = IPPROTO_UDP;
        sockaddr_in from = name_of(own_), to = name_of(peer_);
        head.ip.saddr = from.sin_addr.s_addr;
        head.ip.daddr = to.sin_addr.s_addr;
        head.udp.source = from.sin_port;
        head.udp.dest = to.sin_port;
        head.udp.len = htons(static_cast<std::uint16_t>(sizeof head.udp + packet.size()));
        std::vector<std::byte> whole(sizeof head + packet.size());
        std::memcpy(whole.data(), &head, sizeof head);
        std::memcpy(whole.data() + sizeof head, packet.data(), packet.size());
        const Descriptor raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
        EXPECT_EQ(sendto(raw.get(), whole.data(), whole.size(), 0, reinterpret_cast<sockaddr*>(&to),
                         sizeof to),
                  static_cast<ssize_t>(whole.size()));
    }

  private:
    static sockaddr_in name_of(const StreamPlace& place) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(place.port);
        std::memcpy(&name.sin_addr, &place.address[12], sizeof name.sin_addr);
        return name;
    }
    std::array<std::byte, 24> packet_with(std::uint16_t identification) const {
        std::array<std::byte, 24> packet{};
        packet[6] = std::byte{kNumber >> 8};
        packet[7] = std::byte{kNumber & 0xff};
        const iovec piece{packet.data(), packet.size() - kChecksumBytes};
        const std::uint32_t sum = PacketChecksum(own_, peer_, identification).of({&piece, 1});
        std::memcpy(packet.data() + piece.iov_len, &sum, sizeof sum);
        return packet;
    }

    const StreamPlace own_, peer_;
    const Descriptor socket_{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

// An address of this process's own: tests run beside each other.
StreamPlace place_of(unsigned last) {
    StreamPlace place{loopback_address(), kRocePort};
    const auto process = static_cast<unsigned>(getpid());
    place.address[13] = static_cast<std::uint8_t>(1 + process / 250 % 250);
    place.address[14] = static_cast<std::uint8_t>(1 + process % 250);
    place.address[15] = static_cast<std::uint8_t>(last);
    return place;
}

class RoceSockets : public testing::Test {
  protected:
    void open(bool raw) {
        const RawSockets sockets(raw);
        if (raw && !sockets.usable()) GTEST_SKIP() << "no raw sockets here (CAP_NET_RAW)";
        endpoint = std::make_shared<RoceSocket>(thread, own.address);
        packets = std::make_unique<ForeignPackets>(endpoint, kNumber, peer);
    }
    std::size_t next() {
        std::array<std::byte, 4096> into;
        std::size_t length = 0;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (packets->receive(into, into.size(), {&length, 1}) == 0)
            if (std::chrono::steady_clock::now() > deadline) return 0;
        return length;
    }
    void expect_dropped() {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (endpoint->dropped() == 0 && std::chrono::steady_clock::now() < deadline)
            endpoint->drain(nullptr);
        EXPECT_EQ(endpoint->dropped(), 1u);
    }

    EventThread thread;
    const StreamPlace own = place_of(1), peer = place_of(2);
    Card card{peer, own};
    std::shared_ptr<RoceSocket> endpoint;
    std::unique_ptr<ForeignPackets> packets;
};

TEST_F(RoceSockets, take_packets_of_any_identification_where_it_is_hidden) {
    open(false);
    for (const int identification : {0, 7, 0xbeef}) {
        card.send_with_checksum_of(static_cast<std::uint16_t>(identification));
        EXPECT_EQ(next(), 24u) << identification;
    }
    EXPECT_EQ(endpoint->dropped(), 0u);
}

TEST_F(RoceSockets, that_are_raw_verify_the_identification_that_the_sender_chose) {
    open(true);
    if (IsSkipped()) return;
    for (const int identification : {0, 7, 0xbeef}) {
        if (identification == 0)
            card.send_with_checksum_of(0);
        else
            card.send_with_identification(static_cast<std::uint16_t>(identification));
        EXPECT_EQ(next(), 24u) << identification;
    }
    EXPECT_EQ(endpoint->dropped(), 0u);
    card.send_with_checksum_of(7);
    expect_dropped();
}

TEST_F(RoceSockets, that_are_raw_wake_their_flow) {
    open(true);
    if (IsSkipped()) return;
    card.send_with_checksum_of(0);
    pollfd entry{packets->file(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);
    EXPECT_EQ(next(), 24u);
}

// Else it would keep a megabyte that nobody reads.
TEST_F(RoceSockets, that_are_raw_let_the_other_socket_receive_nothing) {
    const RawSockets sockets(true);
    if (!sockets.usable()) GTEST_SKIP() << "no raw sockets here (CAP_NET_RAW)";
    StreamPlace place = own;
    const Descriptor plain = open_packet_socket(place);
    const Descriptor raw = open_raw_receiver(plain, place);
    ASSERT_TRUE(raw);
    card.send_with_checksum_of(0);
    pollfd entry{raw.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10000), 1);
    std::array<std::byte, 4096> into;
    EXPECT_EQ(recv(raw.get(), into.data(), into.size(), MSG_DONTWAIT), 20 + 8 + 24);
    EXPECT_LT(recv(plain.get(), into.data(), into.size(), MSG_DONTWAIT), 0);
    EXPECT_GE(dropped_datagrams(plain.get()), 1u);
}

}  // namespace
}  // namespace verbatim::softnic::test

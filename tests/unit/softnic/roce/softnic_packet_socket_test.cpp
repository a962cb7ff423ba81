// Packet sockets: where the second one cannot be made, the first one goes on alone.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "ports/roce/back_end/packet_socket.hpp"
#include "ports/roce/back_end/udp_socket.hpp"

namespace verbatim::softnic::test {
namespace {

StreamPlace loopback() {
    StreamPlace place;
    place.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    return place;
}

// This process may have no further descriptor while it lives.
class NoDescriptors {
  public:
    NoDescriptors() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest = dup(0);
        close(lowest);
        const rlimit none{static_cast<rlim_t>(lowest), before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
    }
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;

  private:
    rlimit before_{};
};

std::uint16_t port_of_socket(int socket) {
    SocketName name;
    name.bytes = sizeof name.storage;
    EXPECT_EQ(getsockname(socket, name.get(), &name.bytes), 0);
    return port_of(name);
}

// Not by the fixture itself: UBSan needs a descriptor to look at its virtual table.
bool connects_without_descriptors(const Descriptor& socket, SocketName& peer, Descriptor& sender) {
    const NoDescriptors none;
    return connect_packet_socket(socket, peer, sender);
}

class PacketSockets : public testing::Test {
  protected:
    StreamPlace own = loopback(), peers = loopback();
    Descriptor peer = open_packet_socket(peers), socket = open_packet_socket(own), sender;
    SocketName to_peer = name_of(peers), to_own = name_of(own);
};

TEST_F(PacketSockets, one_without_a_second_keeps_its_port_and_receives) {
    EXPECT_FALSE(connects_without_descriptors(socket, to_peer, sender));
    EXPECT_FALSE(sender);
    EXPECT_EQ(port_of_socket(socket.get()), own.port);
    ASSERT_EQ(sendto(peer.get(), "x", 1, 0, to_own.get(), to_own.bytes), 1);
    char got = 0;
    EXPECT_EQ(recv(socket.get(), &got, 1, 0), 1);
}

TEST_F(PacketSockets, two_share_a_port_and_only_the_first_receives) {
    ASSERT_TRUE(connect_packet_socket(socket, to_peer, sender));
    ASSERT_TRUE(sender);
    EXPECT_EQ(port_of_socket(sender.get()), own.port);
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(sendto(peer.get(), "x", 1, 0, to_own.get(), to_own.bytes), 1);
        char got = 0;
        EXPECT_EQ(recv(socket.get(), &got, 1, 0), 1);
        EXPECT_EQ(recv(sender.get(), &got, 1, MSG_DONTWAIT), -1);
    }
}

// A refusal is told before datagrams that wait: it does not show that none does.
TEST_F(PacketSockets, strangers_datagram_behind_a_refusal_is_foreign) {
    StreamPlace strangers = loopback();
    const Descriptor stranger = open_packet_socket(strangers);
    peer.close();
    ASSERT_EQ(sendto(stranger.get(), "x", 1, 0, to_own.get(), to_own.bytes), 1);
    UdpSocket both(std::move(socket), peers);
    const char byte = 0;
    const iovec piece{const_cast<char*>(&byte), 1};
    const PacketPieces packet(&piece, 1);
    std::vector<std::byte> into(4 * 64);
    std::array<std::size_t, 4> lengths{};
    const auto take = [&] {
        const std::size_t count = both.receive(into, 64, lengths);
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(lengths[i], 0u) << "not the peer's";
        return count;
    };
    both.send({&packet, 1});
    std::size_t found = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (both.refusals() == 0) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        found += take();
        std::this_thread::yield();
    }
    while (take() != 0) ++found;
    EXPECT_EQ(both.foreign(), 1u) << found;
}

// A receiver that asks for it is given what left as one.
TEST_F(PacketSockets, packets_of_a_run_leave_as_one_and_arrive_whole) {
    UdpSocket sending(std::move(socket), peers);
    if (!sending.sends_runs())
        GTEST_SKIP() << "runs where the kernel knows UDP_SEGMENT (Linux 4.18 and later)";
    constexpr std::size_t kEach = 1040;
    std::vector<std::byte> bytes(6 * kEach);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 / 5);
    std::array<iovec, 12> pieces;
    std::vector<PacketPieces> packets;
    for (std::size_t i = 0; i < 6; ++i) {
        pieces[2 * i] = {bytes.data() + i * kEach, 12};
        pieces[2 * i + 1] = {bytes.data() + i * kEach + 12, kEach - 12};
        packets.emplace_back(std::span(pieces).subspan(2 * i, 2),
                             static_cast<std::uint16_t>(i < 4 ? i : i - 4));
    }
    std::vector<std::byte> got(bytes.size());
    ASSERT_EQ(sending.send(packets), 6u);
    for (std::size_t i = 0; i < 6; ++i)
        ASSERT_EQ(recv(peer.get(), got.data() + i * kEach, kEach, 0), ssize_t{kEach});
    EXPECT_EQ(got, bytes);
    const int on = 1;
    ASSERT_EQ(setsockopt(peer.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on), 0);
    ASSERT_EQ(sending.send(packets), 6u);
    EXPECT_EQ(recv(peer.get(), got.data(), got.size(), 0), ssize_t{4 * kEach});
    EXPECT_EQ(recv(peer.get(), got.data() + 4 * kEach, got.size(), 0), ssize_t{2 * kEach});
    EXPECT_EQ(got, bytes);
}

// The rest of a run that was taken in part begins in the middle.
TEST_F(PacketSockets, rest_of_a_run_is_sent) {
    UdpSocket sending(std::move(socket), peers);
    std::array<std::byte, 64> bytes{std::byte{1}, std::byte{2}};
    const iovec first{bytes.data(), 32}, second{bytes.data() + 32, 32};
    const std::array<PacketPieces, 2> rest{PacketPieces(std::span(&first, 1), 7),
                                           PacketPieces(std::span(&second, 1), 8)};
    ASSERT_EQ(sending.send(rest), 2u);
    std::array<std::byte, 64> got{};
    EXPECT_EQ(recv(peer.get(), got.data(), 64, 0), 32);
    EXPECT_EQ(recv(peer.get(), got.data() + 32, 64, 0), 32);
    EXPECT_EQ(got, bytes);
}

}  // namespace
}  // namespace verbatim::softnic::test

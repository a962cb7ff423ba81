// Packet sockets: where the second one cannot be made, the first one goes on alone.
#include <gtest/gtest.h>
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

}  // namespace
}  // namespace verbatim::softnic::test

// Packet sockets: where the second one cannot be made, the first one goes on alone.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
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

TEST(PacketSockets, one_without_a_second_keeps_its_port_and_receives) {
    StreamPlace own = loopback(), peers = loopback();
    const Descriptor peer = open_packet_socket(peers);
    const Descriptor socket = open_packet_socket(own);
    SocketName to_peer = name_of(peers), to_own = name_of(own);
    Descriptor sender;
    {
        const NoDescriptors none;
        EXPECT_FALSE(connect_packet_socket(socket, to_peer, sender));
    }
    EXPECT_FALSE(sender);
    EXPECT_EQ(port_of_socket(socket.get()), own.port);
    ASSERT_EQ(sendto(peer.get(), "x", 1, 0, to_own.get(), to_own.bytes), 1);
    char got = 0;
    EXPECT_EQ(recv(socket.get(), &got, 1, 0), 1);
}

TEST(PacketSockets, two_share_a_port_and_only_the_first_receives) {
    StreamPlace own = loopback(), peers = loopback();
    const Descriptor peer = open_packet_socket(peers);
    const Descriptor socket = open_packet_socket(own);
    SocketName to_peer = name_of(peers), to_own = name_of(own);
    Descriptor sender;
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
TEST(PacketSockets, strangers_datagram_behind_a_refusal_is_foreign) {
    StreamPlace own = loopback(), peers = loopback(), strangers = loopback();
    const Descriptor stranger = open_packet_socket(strangers);
    Descriptor socket = open_packet_socket(own);
    SocketName to_own = name_of(own);
    { const Descriptor gone = open_packet_socket(peers); }
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
    for (int looks = 0; looks < 1000 && both.refusals() == 0; ++looks) {
        found += take();
        usleep(1000);
    }
    EXPECT_NE(both.refusals(), 0u);
    while (take() != 0) ++found;
    EXPECT_EQ(both.foreign(), 1u) << found;
}

}  // namespace
}  // namespace verbatim::softnic::test

// The responder of the udp port against a foreign peer that the test plays packet by packet: what
// cards send and our own requester does not.
#include <gtest/gtest.h>

#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using Peer = PacketPeer;

class ForeignRequester : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end, Peer::Meets::receiver};
};

TEST_F(ForeignRequester, gets_an_empty_response_to_a_read_of_no_bytes) {
    RemoteHeader nothing = peer.remote(64, 0);
    nothing.key = mlx5::be32(0);            // which is not looked at
    for (int time = 0; time < 2; ++time) {  // the second time it is a duplicate
        peer.send(PacketOpcode::read_request, Peer::own(0), nothing);
        const Arrived answer = peer.next();
        ASSERT_EQ(answer.packet.opcode, PacketOpcode::response_only);
        EXPECT_EQ(answer.packet.sequence, Peer::own(0));
        EXPECT_EQ(answer.syndrome(), kAcknowledged);
        EXPECT_TRUE(answer.packet.payload.empty());
    }
    EXPECT_EQ(peer.settle(Peer::own(1)), 0);
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::ready_to_receive);
}

TEST_F(ForeignRequester, gets_empty_responses_in_the_order_of_its_requests) {
    const auto value = pattern(8, 7);
    std::copy(value.begin(), value.end(), end.at(64));
    constexpr std::uint32_t kRequests = 40;
    for (std::uint32_t i = 0; i < kRequests; ++i)
        peer.send(PacketOpcode::read_request, Peer::own(i), peer.remote(64, i % 3 == 1 ? 8 : 0));
    for (std::uint32_t i = 0; i < kRequests; ++i) {
        const Arrived answer = peer.next();
        ASSERT_EQ(answer.packet.opcode, PacketOpcode::response_only);
        ASSERT_EQ(answer.packet.sequence, Peer::own(i));
        const auto wanted = i % 3 == 1 ? value : pattern(0);
        ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), answer.packet.payload.begin(),
                               answer.packet.payload.end()));
    }
}

// The read is answered behind the message before it.
TEST_F(ForeignRequester, gets_no_empty_response_before_the_message_has_its_receive) {
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20)));
    peer.send(PacketOpcode::read_request, Peer::own(1), peer.remote(64, 0));
    EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    const Arrived answer = peer.next(PacketOpcode::response_only);
    EXPECT_EQ(answer.packet.sequence, Peer::own(1));
    EXPECT_EQ(peer.seen.size(), 1u);
}

TEST_F(ForeignRequester, may_write_and_send_nothing) {
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    ASSERT_EQ(end.post_receive(192, 64, 6), Errc::ok);
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 0));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(0));
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(1)));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(1));
    struct {
        RemoteHeader remote;
        ImmediateHeader immediate;
    } const noticed{peer.remote(64, 0), {mlx5::be32(77).raw()}};
    peer.send(PacketOpcode::write_only_immediate, Peer::own(2), noticed);
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(2));
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 2; }));
    EXPECT_EQ(peer.seen[0].bytes, 0u);
    EXPECT_EQ(peer.seen[1].bytes, 0u);
    EXPECT_EQ(peer.seen[1].immediate, 77u);
}

}  // namespace
}  // namespace verbatim::softnic::test

// The requester of the udp port against a peer that the test plays packet by packet.
#include <gtest/gtest.h>

#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;
using Peer = PacketPeer;

class PacketRequester : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end};

    void post(Opcode opcode, std::size_t bytes) {
        const Element element = end.element(0, bytes);
        WorkRequest request = end.request(opcode, 0);
        request.remote_address = 0x10000;
        request.remote_key = 7;
        request.elements = std::span(&element, 1);
        ASSERT_EQ(end.send->post(request), Errc::ok);
    }
    void wait_for_completions(std::size_t count) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (peer.seen.size() < count) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            peer.look();
        }
    }
};

TEST_F(PacketRequester, cuts_writes_at_the_path_mtu_and_asks_for_an_acknowledgement) {
    post(Opcode::write, 2 * Peer::kMtu + 1);
    const std::array kinds{PacketOpcode::write_first, PacketOpcode::write_middle,
                           PacketOpcode::write_last};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const Arrived part = peer.next();
        EXPECT_EQ(part.packet.opcode, kinds[i]);
        EXPECT_EQ(part.packet.sequence, peer.ends(i));
        EXPECT_EQ(part.packet.payload.size(), i == 2 ? 1 : Peer::kMtu);
        EXPECT_TRUE(i != 2 || part.packet.asks);
        if (i == 0) {
            const auto header = part.packet.read<RemoteHeader>();
            EXPECT_EQ(header.address.native(), 0x10000u);
            EXPECT_EQ(header.key.native(), 7u);
            EXPECT_EQ(header.bytes.native(), 2 * Peer::kMtu + 1);
        }
    }
    EXPECT_TRUE(peer.seen.empty());
    peer.answer(peer.ends(2), kAcknowledged);
    wait_for_completions(1);
    EXPECT_EQ(peer.seen[0].status, Errc::ok);
}

TEST_F(PacketRequester, sends_again_from_where_a_sequence_nak_says) {
    for (int i = 0; i < 3; ++i) post(Opcode::write, 8);
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(peer.next().packet.sequence, peer.ends(i));
    peer.answer(peer.ends(1), kWrongSequence);
    EXPECT_EQ(peer.next().packet.sequence, peer.ends(1));
    EXPECT_EQ(peer.next().packet.sequence, peer.ends(2));
    wait_for_completions(1);  // what it says of those before
    EXPECT_EQ(peer.seen.size(), 1u);
    peer.answer(peer.ends(2), kAcknowledged);
    wait_for_completions(3);
}

TEST_F(PacketRequester, sends_again_when_nobody_answers) {
    post(Opcode::write, 8);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(peer.next().packet.sequence, peer.ends(0));
    peer.answer(peer.ends(0), kAcknowledged);
    wait_for_completions(1);
    EXPECT_GE(packet_counts(*end.queue_pair).repeated, 3u);
}

TEST_F(PacketRequester, asks_again_for_a_response_that_later_acknowledgements_show_to_be_lost) {
    post(Opcode::read, 8);
    post(Opcode::write, 8);
    EXPECT_EQ(peer.next().packet.opcode, PacketOpcode::read_request);
    EXPECT_EQ(peer.next().packet.opcode, PacketOpcode::write_only);
    peer.answer(peer.ends(1), kAcknowledged);
    const Arrived again = peer.next(PacketOpcode::read_request);
    EXPECT_EQ(again.packet.sequence, peer.ends(0));
    EXPECT_TRUE(peer.seen.empty());
    const auto bytes = pattern(8, 5);
    peer.send(PacketOpcode::response_only, peer.ends(0),
              AnswerHeader{mlx5::be32(std::uint32_t{kAcknowledged} << 24)}, bytes);
    peer.answer(peer.ends(1), kAcknowledged);
    wait_for_completions(2);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), end.at(0)));
}

TEST_F(PacketRequester, believes_no_acknowledgement_of_what_it_has_not_sent) {
    post(Opcode::write, 8);
    peer.next();
    for (const std::uint32_t ahead : {1u, 2u, 1000u, 0x700000u})
        peer.answer(peer.ends(ahead), kAcknowledged);
    peer.answer(peer.ends(0xffffff), kAcknowledged);  // before the first one
    // It is sent again meanwhile, which the timer does.
    for (int i = 0; i < 2; ++i) EXPECT_EQ(peer.next().packet.sequence, peer.ends(0));
    EXPECT_TRUE(peer.seen.empty());
    peer.answer(peer.ends(0), kAcknowledged);
    wait_for_completions(1);
    EXPECT_EQ(peer.seen[0].status, Errc::ok);
}

TEST_F(PacketRequester, sends_nothing_new_while_a_message_waits_for_a_receive) {
    post(Opcode::send, 8);
    EXPECT_EQ(peer.next().packet.sequence, peer.ends(0));
    constexpr std::uint8_t kTenMs = 20;
    peer.answer(peer.ends(0), kNotReady | kTenMs);
    while (receiver_not_ready_count(*end.queue_pair) == 0) peer.look();
    post(Opcode::write, 8);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(peer.next().packet.sequence, peer.ends(0));  // its probe
        peer.answer(peer.ends(0), kNotReady | kTenMs);
    }
    peer.answer(peer.ends(0), kAcknowledged);
    EXPECT_EQ(peer.next().packet.sequence, peer.ends(1));
    EXPECT_EQ(receiver_not_ready_count(*end.queue_pair), 1u);
    peer.answer(peer.ends(1), kAcknowledged);
    wait_for_completions(2);
}

TEST_F(PacketRequester, completes_with_what_a_nak_says) {
    post(Opcode::write, 8);
    post(Opcode::write, 8);
    post(Opcode::write, 8);
    peer.next();
    peer.answer(peer.ends(1), kNoAccess);
    wait_for_completions(3);
    EXPECT_EQ(peer.seen[0].status, Errc::ok);
    EXPECT_EQ(peer.seen[1].status, Errc::remote_access);
    EXPECT_EQ(peer.seen[2].status, Errc::flushed);
}

TEST_F(PacketRequester, fails_where_a_response_has_another_length_than_asked_for) {
    post(Opcode::read, 16);
    peer.next();
    peer.send(PacketOpcode::response_only, peer.ends(0),
              AnswerHeader{mlx5::be32(std::uint32_t{kAcknowledged} << 24)}, pattern(8));
    wait_for_completions(1);
    EXPECT_NE(peer.seen[0].status, Errc::ok);
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::error);
}

}  // namespace
}  // namespace verbatim::softnic::test

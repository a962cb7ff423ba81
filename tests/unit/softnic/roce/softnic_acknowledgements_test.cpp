// Acknowledgements of the udp port: which packets ask for one, and when those that did not ask get
// theirs.
#include <gtest/gtest.h>

#include <ranges>

#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using Peer = PacketPeer;

class AskedAcknowledgements : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end};

    void SetUp() override { end.peer = {{}, 0x10000, 7}; }
    void write(bool signaled) { ASSERT_EQ(end.post_write(pattern(8), 0, 0, signaled), Errc::ok); }
    // Where the machine is late, the timer sends again, and asks.
    void expect_next_asks(bool wanted) {
        const bool asks = peer.next().packet.asks;
        const bool late = packet_counts(*end.queue_pair).repeated != 0;
        EXPECT_TRUE(late || asks == wanted);
    }
    void wait_for_completion() {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (peer.seen.empty()) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            peer.look();
        }
        EXPECT_EQ(peer.seen[0].status, Errc::ok);
    }
    bool acknowledgement_is_wanted() const {
        return std::ranges::any_of(peer.states, [](const StateHeader& state) {
            return (state.flags & kWantsAcknowledgement) != 0;
        });
    }
};

TEST_F(AskedAcknowledgements, only_signaled_requests_ask_for_theirs) {
    write(false);
    expect_next_asks(false);
    write(true);
    expect_next_asks(true);
    write(false);
    expect_next_asks(false);
    peer.answer(peer.ends(1), kAcknowledged);
    wait_for_completion();
}

TEST_F(AskedAcknowledgements, are_asked_for_by_the_last_packet_of_a_signaled_message_alone) {
    const mlx5::Element element = end.element(0, 3 * Peer::kMtu);
    ASSERT_EQ(end.post_send(std::span(&element, 1)), Errc::ok);
    for (const bool asks : {false, false, true}) expect_next_asks(asks);
}

// What is not acknowledged is kept, and would be sent again.
TEST_F(AskedAcknowledgements, are_asked_for_by_every_16th_packet_at_least) {
    for (int nth = 1; nth <= 32; ++nth) {
        write(false);
        expect_next_asks(nth % 16 == 0);
    }
}

TEST_F(AskedAcknowledgements, what_is_sent_again_asks) {
    write(false);
    expect_next_asks(false);
    EXPECT_TRUE(peer.next().packet.asks);
}

TEST_F(AskedAcknowledgements, a_request_that_sends_nothing_asks_for_those_before_it) {
    write(false);
    expect_next_asks(false);
    ASSERT_EQ(end.send->post(mlx5::WorkRequest{.opcode = mlx5::Opcode::nop}), Errc::ok);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    // Where the machine is late, the timer sends again, and asks.
    while (!acknowledgement_is_wanted() && packet_counts(*end.queue_pair).repeated == 0) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        peer.look();
    }
    EXPECT_TRUE(peer.seen.empty());
    peer.answer(peer.ends(0), kAcknowledged);
    wait_for_completion();
}

class GivenAcknowledgements : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end};

    void write_without_asking(std::uint32_t nth) {
        const auto header = peer.remote(64, 8);
        auto packet = peer.make(PacketOpcode::write_only, Peer::own(nth),
                                std::as_bytes(std::span(&header, 1)), pattern(8));
        constexpr std::size_t kAsksByte = 8;
        packet[kAsksByte] &= std::byte{0x7f};
        peer.send(packet);
    }
};

TEST_F(GivenAcknowledgements, come_without_being_asked_for) {
    for (std::uint32_t nth = 0; nth < 3; ++nth) {
        write_without_asking(nth);
        const Arrived answer = peer.next();
        EXPECT_EQ(answer.packet.opcode, PacketOpcode::acknowledge);
        EXPECT_EQ(answer.packet.sequence, Peer::own(nth));
    }
}

TEST_F(GivenAcknowledgements, a_peer_that_waits_gets_one) {
    write_without_asking(0);
    peer.send(PacketOpcode::state, peer.ends(0), StateHeader{0, kWantsAcknowledgement, 0, 0});
    const Arrived answer = peer.next();
    EXPECT_EQ(answer.packet.opcode, PacketOpcode::acknowledge);
    EXPECT_EQ(answer.packet.sequence, Peer::own(0));
}

// Polls at least once: else its engine thread takes the poller's place.
void pass(End& from, End& to, std::uint64_t value) {
    ASSERT_EQ(from.post_write(std::as_bytes(std::span(&value, 1)), 64, value, value % 16 == 0),
              Errc::ok);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    do {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        to.poll();
    } while (to.value<std::uint64_t>(64) != value);
}

// Each datagram costs a microsecond: two programs that answer each other send few others. Where
// neither has a core for itself they do: so the best of many conversations counts.
TEST(Acknowledgements, messages_to_and_fro_need_few_datagrams_but_their_own) {
    Pair pair(packet_end_options());
    constexpr std::uint64_t kMessages = 100,
                            kMost = 3 * kMessages;  // of 4 with an acknowledgement for each
    const auto sent = [&] {
        return packet_counts(*pair.a.queue_pair).sent + packet_counts(*pair.b.queue_pair).sent;
    };
    std::uint64_t value = 0, needed = ~0ull;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (needed > kMost && !HasFatalFailure()) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << needed;
        const std::uint64_t before = sent();
        for (std::uint64_t i = 0; i < kMessages && !HasFatalFailure(); ++i) {
            pass(pair.a, pair.b, ++value);
            pass(pair.b, pair.a, value);
        }
        needed = sent() - before;
    }
}

}  // namespace
}  // namespace verbatim::softnic::test

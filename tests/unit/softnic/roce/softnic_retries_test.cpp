// A requester whose peer does not answer, or has no receive: how long it tries, by its queue pair's
// attributes, and that each request completes once. The window's own test turns the clock.
#include <gtest/gtest.h>

#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using namespace std::chrono_literals;

using mlx5::Element;
using Peer = PacketPeer;

class ForeignResponder : public testing::Test {
  protected:
    static constexpr std::uint32_t kFirstSequence = 500;

    ForeignResponder() { pair().states().send_packets({.first_sequence = kFirstSequence}); }
    QueuePair& pair() { return static_cast<QueuePair&>(*end.queue_pair); }
    void set_patience(std::chrono::nanoseconds patience) {
        pair().setup().streams().set_patience(patience);
    }
    void post_send(std::uint64_t id) {
        const Element from = end.element(0, 8);
        ASSERT_EQ(end.post_send(std::span(&from, 1), id), Errc::ok);
    }
    bool completes(std::size_t count) {
        return poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() >= count; });
    }
    std::uint64_t repeated() { return packet_counts(*end.queue_pair).repeated; }
    // Packets that were sent are not looked at.
    bool repeats(std::uint64_t packets) {
        return poll_until({&end}, {&peer.seen}, [&] { return repeated() >= packets; });
    }
    // Answers each packet of the first message so, until `count` came or all is completed.
    std::uint32_t answer_first(std::uint8_t syndrome, std::uint32_t count) {
        std::uint32_t came = 0;
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (came != count && peer.seen.empty()) {
            if (std::chrono::steady_clock::now() > deadline) break;
            const auto arrived = peer.look();
            if (!arrived || arrived->packet.sequence != kFirstSequence) continue;
            peer.answer(kFirstSequence, syndrome);
            ++came;
        }
        return came;
    }
    // The first request has failed so, the others were flushed, each once, and nothing is sent any
    // more.
    void expect_failure(Errc why, std::size_t requests) {
        ASSERT_TRUE(completes(requests));
        EXPECT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return end.queue_pair->peer_lost(); }));
        ASSERT_EQ(peer.seen.size(), requests);
        for (std::size_t i = 0; i < requests; ++i) {
            EXPECT_EQ(peer.seen[i].id, i);
            EXPECT_EQ(peer.seen[i].status, i == 0 ? why : Errc::flushed);
        }
        EXPECT_TRUE(end.poll().empty());
        EXPECT_EQ(end.queue_pair->state(), QueuePairState::error);
    }

    End end{packet_end_options()};
    Peer peer{end, Peer::Meets::receiver};
};

TEST_F(ForeignResponder, that_is_silent_fails_the_oldest_request_behind_the_patience) {
    set_patience(300ms);
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t id = 0; id < 3; ++id) post_send(id);
    ASSERT_TRUE(completes(1));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 300ms + RetryTimer::kLastAnswer);
    expect_failure(Errc::retry_exceeded, 3);
}

// Its own requests are no answers.
TEST_F(ForeignResponder, that_asks_and_does_not_answer_fails_the_oldest_request) {
    set_patience(100ms);
    post_send(0);
    std::uint32_t asked = 0;
    const auto ask = [&] {
        peer.send(PacketOpcode::write_only, Peer::own(asked++), peer.remote(64, 8), pattern(8));
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (ask(); peer.seen.empty() && std::chrono::steady_clock::now() < deadline;)
        if (const auto arrived = peer.look();
            arrived && arrived->packet.opcode == PacketOpcode::acknowledge)
            ask();
    EXPECT_GT(asked, 10u);
    expect_failure(Errc::retry_exceeded, 1);
}

TEST_F(ForeignResponder, that_answers_within_the_patience_was_never_silent) {
    set_patience(10s);
    for (std::uint64_t id = 0; id < 3; ++id) post_send(id);
    ASSERT_TRUE(repeats(12));
    peer.answer(kFirstSequence + 2, kAcknowledged);
    ASSERT_TRUE(completes(3));
    for (const mlx5::Completion& completion : peer.seen) EXPECT_EQ(completion.status, Errc::ok);
    // The next request has all of it again.
    post_send(3);
    ASSERT_TRUE(repeats(16));
    peer.answer(kFirstSequence + 3, kAcknowledged);
    ASSERT_TRUE(completes(4));
    EXPECT_EQ(peer.seen[3].status, Errc::ok);
}

TEST_F(ForeignResponder, is_waited_for_until_there_is_a_patience) {
    post_send(0);
    ASSERT_TRUE(repeats(6));
    EXPECT_TRUE(peer.seen.empty());
    set_patience(50ms);
    expect_failure(Errc::retry_exceeded, 1);
}

constexpr std::uint8_t kSoon = kNotReady | 1;  // the shortest time

TEST_F(ForeignResponder, without_a_receive_is_tried_as_often_as_configured) {
    constexpr std::uint8_t kRetries = 3;
    pair().limits().not_ready_retries = kRetries;
    post_send(0);
    post_send(1);
    EXPECT_GE(answer_first(kSoon, ~0u), kRetries + 1u);
    expect_failure(Errc::rnr_exceeded, 2);
}

TEST_F(ForeignResponder, that_has_a_receive_at_the_last_try_was_always_ready) {
    constexpr std::uint8_t kRetries = 3;
    pair().limits().not_ready_retries = kRetries;
    post_send(0);
    ASSERT_EQ(answer_first(kSoon, kRetries), kRetries);
    ASSERT_EQ(answer_first(kAcknowledged, 1), 1u);
    ASSERT_TRUE(completes(1));
    EXPECT_EQ(peer.seen[0].status, Errc::ok);
}

TEST(OwnPeer, that_is_silent_is_lost_after_the_configured_time) {
    EndOptions options = packet_end_options();
    options.device.packets.timeout = 200ms;
    End end(options);
    const auto begun = std::chrono::steady_clock::now();
    Peer peer(end);
    ASSERT_EQ(end.post_write(pattern(8), 0, 1), Errc::ok);
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return !peer.seen.empty(); }));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 200ms);
    EXPECT_EQ(peer.seen[0].status, Errc::retry_exceeded);
}

}  // namespace
}  // namespace verbatim::softnic::test

// The window of a requester, with a clock that the test turns: what counts as lost.
#include <gtest/gtest.h>

#include <chrono>

#include "ports/roce/request_window.hpp"

namespace verbatim::softnic::test {
namespace {

using namespace std::chrono_literals;

// Takes everything, and brings nothing.
class NoWire final : public PacketBackEnd {
  public:
    int file() const noexcept override { return -1; }
    std::size_t receive(std::span<std::byte>, std::size_t,
                        std::span<std::size_t>) noexcept override {
        return 0;
    }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override {
        return packets.size();
    }
    std::uint32_t refusals() const noexcept override { return 0; }
    std::uint64_t foreign() const noexcept override { return 0; }
};

class Window : public testing::Test {
  protected:
    void SetUp() override {
        for (int i = 0; i < 3; ++i) packets.begin({.opcode = PacketOpcode::write_only});
        packets.commit();
        window.send(output, start);
        ASSERT_EQ(packets.in_flight(), 3u);
    }
    void acknowledge(std::uint64_t number, FlowTime now) {
        WirePacket packet;
        packet.opcode = PacketOpcode::state;
        packet.sequence = SequenceSpace(0).sequence_of(number);
        const StateHeader body{};
        packet.extended = std::as_bytes(std::span(&body, 1));
        ASSERT_TRUE(window.take(packet, now));
    }

    // The peer has no receive for the first message; `code`: for how long.
    void refuse_first(std::uint8_t code, FlowTime now) {
        WirePacket packet;
        packet.opcode = PacketOpcode::acknowledge;
        packet.sequence = SequenceSpace(0).sequence_of(1);
        const AnswerHeader header{mlx5::be32((std::uint32_t{kNotReady} | code) << 24)};
        packet.extended = std::as_bytes(std::span(&header, 1));
        ASSERT_TRUE(window.take(packet, now));
    }
    // A whole look that brought nothing.
    bool look(FlowTime now) {
        const bool goes_on = window.expire(now);
        window.send(output, now);
        return goes_on;
    }
    // Looks each millisecond, until it is in vain.
    FlowTime look_from(FlowTime now) {
        for (const FlowTime deadline = now + 1min; now < deadline; now += 1ms) {
            const std::uint64_t sent = output.count();
            if (!look(now)) break;
            if (output.count() != sent) last_sent = now;
        }
        return now;
    }

    const FlowTime start = std::chrono::steady_clock::now();
    NoWire wire;
    PacketOutput output{wire, PacketChecksum(), 1};
    RequestPackets packets;
    ReadResults results{1};
    PeerWords words;
    RequestWindow window{packets, results, words, SequenceSpace(0), false};
    FlowTime last_sent;  // in look_from()
};

TEST_F(Window, sends_nothing_again_before_it_has_looked_for_answers_however_late_it_is) {
    window.send(output, start + 1s);
    EXPECT_EQ(window.repeated(), 0u);
    acknowledge(2, start + 1s);
    window.expire(start + 1s);
    EXPECT_EQ(window.repeated(), 0u);
    EXPECT_EQ(packets.in_flight(), 1u);
}

TEST_F(Window, sends_again_what_has_no_answer_after_all_were_taken) {
    window.expire(start + 7ms);
    EXPECT_EQ(window.repeated(), 0u);
    window.expire(start + 8ms);
    EXPECT_TRUE(window.unsent());
    window.send(output, start + 8ms);
    EXPECT_EQ(window.repeated(), 3u);
    EXPECT_EQ(output.count(), 6u);
    window.expire(start + 8ms + 15ms);
    EXPECT_EQ(window.repeated(), 3u);
    window.expire(start + 8ms + 16ms);
    EXPECT_EQ(window.repeated(), 6u);
}

TEST_F(Window, gives_up_what_was_sent_behind_its_patience_once_more) {
    window.set_patience(1s);
    const FlowTime end = look_from(start);
    EXPECT_GE(last_sent, start + 1s);
    EXPECT_EQ(end, last_sent + RetryTimer::kLastAnswer);
    EXPECT_LE(end, start + 1s + RetryTimer::kMost + RetryTimer::kLastAnswer);
}

// However long the process was stopped.
TEST_F(Window, asks_once_more_before_it_gives_up) {
    window.set_patience(1s);
    const FlowTime late = start + 10s;
    EXPECT_TRUE(look(late));
    EXPECT_EQ(window.repeated(), 3u);
    EXPECT_TRUE(look(late + RetryTimer::kLastAnswer - 1ms));
    acknowledge(3, late + RetryTimer::kLastAnswer);
    EXPECT_TRUE(look(late + 1min));
}

TEST_F(Window, has_all_its_patience_again_when_something_is_acknowledged) {
    window.set_patience(1s);
    look(start + 1s);
    acknowledge(1, start + 1100ms);
    EXPECT_GE(look_from(start + 1100ms), start + 2100ms);
    EXPECT_GE(last_sent, start + 2100ms);
}

TEST_F(Window, has_all_its_patience_for_what_is_sent_behind_an_idle_time) {
    window.set_patience(1s);
    acknowledge(3, start);
    packets.begin({.opcode = PacketOpcode::write_only});
    packets.commit();
    EXPECT_TRUE(look(start + 20s));
    EXPECT_GE(look_from(start + 20s), start + 21s);
    EXPECT_GE(last_sent, start + 21s);
}

TEST_F(Window, without_a_patience_gives_up_never) {
    for (FlowTime now = start; now < start + 24h; now += 1s) ASSERT_TRUE(look(now));
    EXPECT_GT(window.repeated(), 3 * 3600u);
}

TEST_F(Window, counts_tries_that_the_peer_has_answered) {
    refuse_first(1, start);
    EXPECT_TRUE(words.waits());
    EXPECT_EQ(words.tries(), 1u);
    refuse_first(1, start);  // doubled on its way
    EXPECT_EQ(words.tries(), 1u);
    look(start + 1ms);
    EXPECT_EQ(words.tries(), 1u);
    look(start + 3ms);  // the answer was lost
    EXPECT_EQ(window.repeated(), 2u);
    refuse_first(1, start + 3ms);
    EXPECT_EQ(words.tries(), 2u);
}

TEST_F(Window, tries_no_sooner_than_the_peer_says) {
    constexpr std::chrono::microseconds kLongest{655360};  // code 0
    FlowTime now = start;
    for (std::uint32_t tries = 1; tries < 5; ++tries) {
        refuse_first(0, now);
        EXPECT_EQ(words.tries(), tries);
        look(now + kLongest - 1us);
        EXPECT_EQ(window.repeated(), tries - 1);
        look(now += kLongest);
        EXPECT_EQ(window.repeated(), tries);
        now += 5ms;  // on its way
    }
    refuse_first(0, now);
    look(now += kLongest);  // its answer is lost
    look(now + kLongest - 1us);
    EXPECT_EQ(window.repeated(), 5u);
    look(now + kLongest);
    EXPECT_EQ(window.repeated(), 6u);
}

TEST_F(Window, is_patient_with_a_peer_that_says_it_has_no_receive) {
    window.set_patience(1s);
    FlowTime now = start;
    for (int i = 0; i < 100; ++i) {
        refuse_first(0, now);
        now += 700ms;
        ASSERT_TRUE(look(now));
    }
    EXPECT_GE(look_from(now), now + 300ms + RetryTimer::kLastAnswer);
    EXPECT_FALSE(look(start + 2min));
}

}  // namespace
}  // namespace verbatim::softnic::test

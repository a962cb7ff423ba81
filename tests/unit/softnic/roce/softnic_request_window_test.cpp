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

    const FlowTime start = std::chrono::steady_clock::now();
    NoWire wire;
    PacketOutput output{wire, PacketChecksum(), 1};
    RequestPackets packets;
    ReadResults results{1};
    PeerWords words;
    RequestWindow window{packets, results, words, SequenceSpace(0), false};
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

}  // namespace
}  // namespace verbatim::softnic::test

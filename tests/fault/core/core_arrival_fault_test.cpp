// Hostile peers of the arrival protocol (docs/arrival.md, "Hostile peers"): each row of the table
// ends the connection with a protocol error, and nothing else.
#include "core_hand_made_peer.hpp"

namespace verbatim {
namespace {

using test::HandMadePeer;

Config event_config() {
    Config config = test::small_config();
    config.lane.mode = LaneMode::event;
    return config;
}

class HostileArrival : public testing::Test {
  protected:
    HandMadePeer peer{event_config()};
    std::uint64_t posted_word() const { return peer.mine().posted.address; }
    PostedWords& posted() { return *reinterpret_cast<PostedWords*>(posted_word()); }
};

TEST_F(HostileArrival, immediate_of_a_generation_that_was_not_issued) {
    peer.send_immediate(1);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST_F(HostileArrival, immediate_of_another_generation) {
    ASSERT_TRUE(peer.is_armed());
    peer.send_immediate(2);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST_F(HostileArrival, second_immediate_of_a_generation) {
    ASSERT_TRUE(peer.is_armed());
    peer.send_immediate(1);
    peer.send_immediate(1);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST_F(HostileArrival, more_immediates_than_there_are_receives) {
    ASSERT_TRUE(peer.is_armed());
    for (int i = 0; i < 20; ++i) peer.send_immediate(1);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST_F(HostileArrival, positions_beyond_the_ring) {
    posted().positions[0] = std::uint64_t{1} << 40;
    EXPECT_EQ(peer.end_of_connection_after_arming(), Errc::protocol_error);
}

TEST_F(HostileArrival, credits_for_more_than_was_sent) {
    posted().positions[1] = 4096;
    EXPECT_EQ(peer.end_of_connection_after_arming(), Errc::protocol_error);
}

TEST_F(HostileArrival, generations_that_go_down) {
    peer.write_armed(2);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::ok);
    peer.write_armed(1);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::protocol_error);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST_F(HostileArrival, one_generation_of_two_kinds) {
    peer.write_armed(1 | armed::kSilent);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::ok);
    peer.write_armed(1 | armed::kNote);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::protocol_error);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

TEST(HostileNotes, that_are_asked_for_without_a_word_for_them) {
    HandMadePeer peer(event_config(), [](Hello& mine) { mine.note.address = 0; });
    peer.write_armed(1 | armed::kNote);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::protocol_error);
    EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error);
}

// Its receives are used up by the first notifications, and it posts no more.
TEST_F(HostileArrival, generations_without_receives) {
    Errc result = Errc::ok;
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    for (std::uint64_t generation = 1; result == Errc::ok && !deadline.passed(); ++generation) {
        peer.write_armed(generation);
        result = peer.connection().try_send(1, {});
        while (result == Errc::would_block && !deadline.passed()) {
            const Errc state = peer.connection().progress();
            result = state == Errc::ok ? peer.connection().try_send(1, {}) : state;
        }
    }
    while (peer.connection().progress() == Errc::ok && !deadline.passed()) {
    }
    EXPECT_EQ(peer.connection().state(), Errc::rnr_exceeded);
}

// Honest as far as anyone can tell: a record waits behind all writes that were posted before it.
TEST_F(HostileArrival, announced_records_that_do_not_come_keep_the_lane_looking) {
    posted().positions[0] = 32;
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(100));
    while (!deadline.passed()) (void)peer.connection().lane().wait(deadline);
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    ASSERT_EQ(peer.ring().try_send({.channel = 1}), Errc::ok);
    EXPECT_EQ(
        peer.connection().receive_message(Deadline::after(std::chrono::seconds(30))).channel(), 1);
}

}  // namespace
}  // namespace verbatim

// A peer made by hand that takes its leave over TCP before, or without, having written what it says
// it has.
#include "core_hand_made_peer.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(30s); }

using test::HandMadePeer;

// Until the other side knows of the bye, and so accepts nothing any more.
void expect_bye_is_heard(HandMadePeer& peer) {
    const Deadline deadline = soon();
    while (peer.connection().try_send(1, {}) != Errc::peer_lost) {
        ASSERT_FALSE(deadline.passed());
        (void)peer.connection().progress();
    }
}

TEST(Bye, that_overtakes_a_message_does_not_hide_it) {
    HandMadePeer peer(test::small_config());
    const std::string text = "behind the bye";
    peer.say_bye(ring::slot_bytes(text.size()));
    expect_bye_is_heard(peer);
    Message message;
    EXPECT_EQ(peer.connection().try_receive(message), Errc::would_block);
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    ASSERT_EQ(peer.ring().try_send({.channel = 3, .head = std::as_bytes(std::span(text))}),
              Errc::ok);
    EXPECT_EQ(peer.connection().receive_message(soon()).payload().size(), text.size());
    EXPECT_EQ(test::error_of([&] { peer.connection().receive_message(soon()); }).code(),
              Errc::peer_lost);
    EXPECT_TRUE(peer.connection().peer_closed());
}

TEST(Bye, tells_whether_everything_was_taken) {
    for (const bool all : {true, false}) {
        HandMadePeer peer(test::small_config());
        ASSERT_EQ(peer.connection().try_send(1, {}), Errc::ok);
        peer.say_bye(0, all ? ring::slot_bytes(0) : 0);
        EXPECT_EQ(peer.end_of_connection(), Errc::peer_lost);
        EXPECT_EQ(peer.connection().peer_took_all(), all);
    }
}

// It has left the ring of the side that closes, and waits for its program: for try_receive() before
// a handler's messages, or as a copy.
TEST(Bye, does_not_call_taken_what_waits_for_the_program) {
    for (const bool as_copy : {false, true}) {
        test::ConnectedPair pair;
        pair.receiver->on(2, [](Message&) {});
        ASSERT_EQ(pair.sender->try_send(1, {}), Errc::ok);
        (void)pair.receiver->progress();
        if (as_copy) {
            EXPECT_EQ(pair.receiver->handle_all(), Errc::ok);
        }
        pair.receiver.reset();
        const Deadline deadline = soon();
        while (pair.sender->progress() == Errc::ok && !deadline.passed()) {
        }
        EXPECT_TRUE(pair.sender->peer_closed());
        EXPECT_FALSE(pair.sender->peer_took_all()) << as_copy;
    }
}

TEST(Bye, of_a_peer_that_did_not_send_what_it_says_is_a_loss) {
    HandMadePeer peer(test::small_config());
    peer.say_bye(std::uint64_t{1} << 40);
    EXPECT_EQ(test::error_of([&] { peer.connection().receive_message(soon()); }).code(),
              Errc::peer_lost);
    EXPECT_FALSE(peer.connection().peer_closed());
}

constexpr int kShort = 400;

// A lane that always polls writes nothing before its program does.
Config busy_config() {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.mode = LaneMode::busy;
    return config;
}

// Calls, and closes at once.
int call_often(softnic::test::Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 90;
    Context context(busy_config());
    for (int i = 0; i < kShort; ++i) const Connection ended = context.connect(test::local(port));
    return 0;
}

// The first write asks the peer for the memory file, and the peer has ended it meanwhile.
TEST(Bye, of_a_peer_that_is_written_to_for_the_first_time_leaves_no_warning) {
    test::CapturedLog log;
    softnic::test::Child caller(call_often);
    Context context(busy_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(caller.wire().put(listener.port()));
    for (int i = 0; i < kShort; ++i) {
        Connection closing = listener.accept(soon());
        const Errc error = closing.try_send(1, {});
        EXPECT_TRUE(error == Errc::ok || error == Errc::peer_lost) << name(error);
    }
    EXPECT_EQ(caller.reap(), 0);
    const std::string logged = log.text();
    EXPECT_EQ(logged.find("memory file"), std::string::npos) << logged;
}

}  // namespace
}  // namespace verbatim

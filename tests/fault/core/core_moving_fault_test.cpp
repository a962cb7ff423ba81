// Peers that are killed, silent or hostile while a connection moves between lanes. The survivor
// gets an error for that connection only.
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "core_fault.hpp"
#include "core_hand_made_peer.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using test::HandMadePeer;

Deadline soon() { return Deadline::after(30s); }

Config hasty() {
    Config config = test::small_config();
    config.connect.timeout = 300ms;
    return config;
}

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}
std::uint64_t number_of(const Message& message) {
    std::uint64_t number = ~std::uint64_t{0};
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}

// Answers each message; moves its own end now and then, where `every` is not 0.
int echo(Connection& connection, Context& context, std::uint64_t every) {
    const Lane lanes[2] = {context.lane(), context.make_lane()};
    for (std::uint64_t count = 1;; ++count) try {
            const Message message = connection.receive_message(soon());
            connection.send_message(1, message.payload(), {}, soon());
            if (every != 0 && count % every == 0) connection.move_to(lanes[count / every % 2]);
        } catch (const Error& error) {
            return error.code() == Errc::peer_lost ? 0 : 1;
        }
}

// A child that connects to the port it is told, and answers.
class EchoChild {
  public:
    explicit EchoChild(std::uint64_t every = 0)
        : child_([every](Wire& wire) {
              std::uint16_t port = 0;
              if (!wire.get(port)) return 90;
              Context context(test::small_config());
              Connection connection = context.connect(test::local(port));
              return echo(connection, context, every);
          }) {}
    Connection connect(Listener& listener) {
        EXPECT_TRUE(child_.wire().put(listener.port()));
        return listener.accept(soon());
    }
    Child& process() { return child_; }

  private:
    Child child_;
};

std::uint64_t ask(Connection& connection, std::uint64_t number) {
    connection.send_message(1, bytes_of(number), {}, soon());
    return number_of(connection.receive_message(soon()));
}

TEST(MovingProcesses, both_move_under_traffic_in_order) {
    EchoChild child(7);
    Context context(test::small_config());
    Listener listener = context.listen("127.0.0.1:0");
    Connection connection = child.connect(listener);
    const Lane lanes[2] = {context.lane(), context.make_lane()};
    std::uint64_t sent = 0, received = 0;
    for (std::uint64_t moves = 1; moves <= 40; ++moves) {
        while (sent < moves * 50) {
            connection.send_message(1, bytes_of(sent), {}, soon());
            if (++sent % 8 == 0) {
                ASSERT_EQ(number_of(connection.receive_message(soon())), received);
                ++received;
            }
        }
        connection.move_to(lanes[moves % 2]);
    }
    for (; received < sent; ++received)
        ASSERT_EQ(number_of(connection.receive_message(soon())), received);
}

// The kill comes by a task of the lane that waits, so while it moves.
TEST(MovingPeer, that_is_killed_ends_this_connection_only) {
    for (const bool stopped : {true, false}) {
        EchoChild child, bystander;
        Context context(test::small_config());
        Listener listener = context.listen("127.0.0.1:0");
        Connection connection = child.connect(listener), other = bystander.connect(listener);
        ASSERT_EQ(ask(connection, 1), 1u);
        if (stopped) child.process().kill(SIGSTOP);
        ASSERT_EQ(connection.try_send(1, bytes_of(2)), Errc::ok);
        context.lane().submit([&]() noexcept { child.process().kill(SIGKILL); });
        const Lane lane = context.make_lane();
        const Error error = test::error_of([&] { connection.move_to(lane); });
        EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
        // What came before can be received: the answer, perhaps.
        Message message;
        const Deadline deadline = soon();
        while (connection.progress() == Errc::ok && !deadline.passed())
            (void)connection.try_receive(message);
        EXPECT_EQ(connection.state(), Errc::peer_lost);
        EXPECT_NE(connection.try_send(1, {}), Errc::ok);
        EXPECT_NE(connection.try_flush(), Errc::would_block) << "nothing is outstanding";
        EXPECT_EQ(ask(other, 3), 3u);
        other.move_to(context.make_lane());
        EXPECT_EQ(ask(other, 4), 4u);
    }
}

TEST(MovingPeer, that_says_nothing_is_lost_at_the_deadline) {
    HandMadePeer peer(hasty());
    const Lane lane = peer.context().make_lane();
    const auto begun = Clock::now();
    const Error error = test::error_of([&] { peer.connection().move_to(lane); });
    EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
    EXPECT_GE(Clock::now() - begun, 300ms);
    EXPECT_EQ(peer.end_of_connection(), Errc::peer_lost);
}

TEST(MovingPeer, that_asks_and_then_says_nothing_is_lost_at_the_deadline) {
    HandMadePeer peer(hasty());
    Hello again = peer.mine();
    again.queue_pair.number ^= 1;
    peer.say(FrameType::move, encode_hello(again));
    EXPECT_EQ(peer.end_of_connection(), Errc::peer_lost);
}

TEST(MovingPeer, that_refuses_changes_nothing) {
    HandMadePeer peer(test::small_config());
    // The answer waits in the socket until the move is said: a refusal before is not due.
    std::thread answering([&] {
        const auto said = peer.hear_frame();
        EXPECT_FALSE(said.empty());
        peer.say(FrameType::refused, encode_refusal({Errc::out_of_memory, "no room"}));
    });
    const Lane lane = peer.context().make_lane();
    const Error error = test::error_of([&] { peer.connection().move_to(lane); });
    answering.join();
    EXPECT_EQ(error.code(), Errc::out_of_memory);
    EXPECT_TRUE(test::says(error, "no room"));
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    ASSERT_EQ(peer.ring().try_send({.channel = 3}), Errc::ok);
    EXPECT_EQ(peer.connection().receive_message(soon()).channel(), 3);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::ok);
}

// By one write, so that both frames are heard at once: the move alone would fail later, as its
// queue pair is in use.
void put_behind_move(HandMadePeer& peer, FrameType type, std::span<const std::byte> body) {
    auto both = encode_frame(FrameType::move, encode_hello(peer.mine()));
    const auto second = encode_frame(type, body);
    both.insert(both.end(), second.begin(), second.end());
    peer.put(both);
}

// What each hostile peer says while nothing moves here.
TEST(MovingPeer, that_breaks_the_protocol_ends_its_connection) {
    const std::vector<std::function<void(HandMadePeer&)>> attacks{
        [](HandMadePeer& peer) { peer.say(FrameType::ready, {}); },
        [](HandMadePeer& peer) {
            peer.say(FrameType::refused, encode_refusal({Errc::unsupported, "no"}));
        },
        [](HandMadePeer& peer) { peer.say(FrameType::hello, encode_hello(peer.mine())); },
        [](HandMadePeer& peer) { peer.say(FrameType::move, {}); },
        [](HandMadePeer& peer) {
            std::vector<std::byte> noise(500, std::byte{0x5a});
            peer.say(FrameType::move, noise);
        },
        [](HandMadePeer& peer) {
            auto cut = encode_hello(peer.mine());
            cut.resize(cut.size() / 2);
            peer.say(FrameType::move, cut);
        },
        [](HandMadePeer& peer) {
            Hello changed = peer.mine();
            changed.ring_address += 4096;
            peer.say(FrameType::move, encode_hello(changed));
        },
        [](HandMadePeer& peer) {
            Hello changed = peer.mine();
            changed.tag_key ^= 1;
            peer.say(FrameType::move, encode_hello(changed));
        },
        [](HandMadePeer& peer) {
            put_behind_move(peer, FrameType::move, encode_hello(peer.mine()));
        },
        [](HandMadePeer& peer) {
            put_behind_move(peer, FrameType::refused, encode_refusal({Errc::unsupported, "no"}));
        },
        // Ready before this side has said its move.
        [](HandMadePeer& peer) { put_behind_move(peer, FrameType::ready, {}); },
    };
    for (std::size_t i = 0; i < attacks.size(); ++i) {
        HandMadePeer peer(test::small_config());
        attacks[i](peer);
        EXPECT_EQ(peer.end_of_connection(), Errc::protocol_error) << "attack " << i;
    }
}

TEST(MovingPeer, of_an_older_version_is_not_asked) {
    HandMadePeer peer(test::small_config(), [](Hello& mine) { mine.features = 0; });
    const Lane lane = peer.context().make_lane();
    EXPECT_EQ(test::error_of([&] { peer.connection().move_to(lane); }).code(), Errc::unsupported);
    EXPECT_EQ(peer.connection().try_send(1, {}), Errc::ok);
}

}  // namespace
}  // namespace verbatim

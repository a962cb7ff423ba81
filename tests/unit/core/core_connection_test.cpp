// Connections between two contexts of one process: messages against a model, one-sided writes,
// back-pressure, closing. Both ends also run as two threads, which is what the thread sanitizer can
// see.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core_fault.hpp"
#include "core_messages.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::ConnectedPair;
using test::small_config;
using test::small_ring;
using test::soon;
using test::text_of;

using Channels = std::vector<std::uint8_t>;

// The i-th message of a stream: any length from none to the longest.
std::string nth_text(std::uint64_t seed, int i, std::size_t longest) {
    std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(i));
    std::string text(i % 40 == 0 ? longest : random() % 300 % (longest + 1), '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

// Sends `count` messages and receives as many, whichever is possible next.
void converse(Connection& connection, std::uint64_t mine, std::uint64_t theirs, int count) {
    const std::size_t longest = connection.max_message_bytes();
    const Deadline deadline = soon();
    unsigned idle = 0;
    for (int sent = 0, received = 0; sent < count || received < count;) {
        ASSERT_FALSE(deadline.passed()) << sent << " sent, " << received << " received";
        bool moved = false;
        if (sent < count) {
            const std::string text = nth_text(mine, sent, longest);
            const auto half = text.size() / 3;
            const Errc code =
                connection.try_send(static_cast<std::uint8_t>(sent % 8), bytes_of(text).first(half),
                                    bytes_of(text).subspan(half));
            ASSERT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
            sent += code == Errc::ok ? 1 : 0;
            moved = code == Errc::ok;
        }
        Message message;
        const Errc code = connection.try_receive(message);
        ASSERT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
        if (code == Errc::ok) {
            ASSERT_EQ(message.channel(), received % 8);
            ASSERT_EQ(text_of(message), nth_text(theirs, received, longest)) << received;
            ++received;
            moved = true;
        }
        if (moved)
            idle = 0;
        else
            connection.pause(idle++, deadline);
    }
}

TEST(Messages, cross_in_both_directions_between_two_threads) {
    ConnectedPair pair(small_ring(), small_ring());
    std::thread other([&] { converse(*pair.receiver, 2, 1, 4000); });
    converse(*pair.sender, 1, 2, 4000);
    other.join();
}

TEST(Messages, cross_between_rings_of_different_sizes) {
    Config large = small_config();
    large.ring.bytes = 64 << 10;
    ConnectedPair pair(small_ring(), large);
    EXPECT_NE(pair.sender->max_message_bytes(), pair.receiver->max_message_bytes());
    const std::string longest(pair.sender->max_message_bytes(), 'l');
    pair.sender->send_message(3, bytes_of(longest), {}, soon());
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), longest);
}

// Two sides that send numbers, and read only when the test says so.
class TwoSides {
  public:
    // Each sends until it was refused many times in a row.
    void send_until_refused() {
        const Deadline deadline = soon();
        for (int refusals = 0; refusals < 200;) {
            ASSERT_FALSE(deadline.passed()) << "there is room without an end";
            const bool first = send(0), second = send(1);
            refusals = first || second ? 0 : refusals + 1;
            poll();
        }
    }
    // False: there is no room.
    bool send(std::size_t side) {
        const auto number = std::as_bytes(std::span(&sent_[side], 1));
        const Errc code = of(side).try_send(1, number, std::span(kFill));
        EXPECT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
        sent_[side] += code == Errc::ok ? 1u : 0u;
        return code == Errc::ok;
    }
    void expect_room(std::size_t side) {
        const Deadline deadline = soon();
        while (!send(side)) {
            ASSERT_FALSE(deadline.passed()) << "side " << side;
            poll();
        }
    }
    // All that was sent to this side, in order.
    void receive_all(std::size_t side) {
        const Deadline deadline = soon();
        while (received_[side] != sent_[1 - side]) {
            ASSERT_FALSE(deadline.passed()) << received_[side] << " of " << sent_[1 - side];
            poll();
            Message message;
            if (of(side).try_receive(message) != Errc::ok) continue;
            ASSERT_EQ(message.payload().size(), sizeof(std::uint64_t) + sizeof kFill);
            std::uint64_t number = 0;
            std::memcpy(&number, message.payload().data(), sizeof number);
            ASSERT_EQ(number, received_[side]++);
        }
    }
    std::uint64_t sent(std::size_t side) const { return sent_[side]; }

  private:
    static constexpr std::byte kFill[88] = {};
    Connection& of(std::size_t side) { return side == 0 ? *pair_.sender : *pair_.receiver; }
    void poll() { (void)of(0).progress(), (void)of(1).progress(); }

    ConnectedPair pair_{small_ring(), small_ring()};
    std::uint64_t sent_[2] = {}, received_[2] = {};
};

TEST(Messages, of_two_sides_that_send_and_do_not_read_wait_and_are_all_there) {
    TwoSides sides;
    for (int round = 0; round < 3; ++round) {
        sides.send_until_refused();
        EXPECT_GT(sides.sent(0) * sides.sent(1), 0u);
        // One that reads lets the other go on, though that one reads nothing; and the other way.
        for (const std::size_t reader : {0u, 1u}) {
            sides.receive_all(reader);
            sides.expect_room(1 - reader);
        }
        if (HasFatalFailure()) return;
    }
    for (const std::size_t reader : {0u, 1u}) sides.receive_all(reader);
}

TEST(Messages, full_ring_is_a_status_and_loses_nothing) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::string text(100, 'b');
    int accepted = 0;
    while (pair.sender->try_send(1, bytes_of(text)) == Errc::ok) ASSERT_LT(++accepted, 1000);
    EXPECT_GE(accepted, 4096 / 160 - 8);
    EXPECT_EQ(pair.sender->try_send(1, bytes_of(text)), Errc::would_block);
    EXPECT_EQ(pair.sender->state(), Errc::ok);
    for (int i = 0; i < accepted; ++i) {
        EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), text);
    }
    Message message;
    EXPECT_EQ(pair.receiver->try_receive(message), Errc::would_block);
    EXPECT_EQ(pair.sender->try_send(1, bytes_of(text)), Errc::ok) << "credits came back";
}

TEST(Messages, longer_than_the_ring_takes_are_refused_alone) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::string text(pair.sender->max_message_bytes() + 1, 'x');
    EXPECT_EQ(pair.sender->try_send(1, bytes_of(text)), Errc::message_too_large);
    EXPECT_EQ(pair.sender->try_send(1, {}, {}, 16), Errc::invalid_argument);
    pair.sender->send_message(1, {}, {}, soon());
    EXPECT_TRUE(pair.receiver->receive_message(soon()).payload().empty());
}

TEST(Messages, on_channels_of_verbatims_layers_are_refused) {
    ConnectedPair pair;
    Sender other = pair.sender->sender();
    for (const std::uint8_t channel : {kLayerChannels, std::uint8_t{255}}) {
        Claim claim;
        EXPECT_EQ(pair.sender->try_send(channel, {}), Errc::invalid_argument);
        EXPECT_EQ(pair.sender->try_batch(channel, {}), Errc::invalid_argument);
        EXPECT_EQ(pair.sender->try_claim(channel, 8, claim), Errc::invalid_argument);
        EXPECT_EQ(other.try_send(channel, {}), Errc::invalid_argument);
        EXPECT_EQ(test::error_code_of([&] { pair.sender->send_message(channel, {}, {}, soon()); }),
                  Errc::invalid_argument);
        EXPECT_EQ(test::error_code_of([&] { pair.sender->on(channel, [](Message&) {}); }),
                  Errc::invalid_argument);
        EXPECT_EQ(test::error_code_of([&] { pair.sender->set_handler(channel, {}); }),
                  Errc::invalid_argument);
    }
    // Nothing of it was sent, and what may be sent is: by the program, and by a layer.
    pair.sender->send_message(kLayerChannels - 1, {}, {}, soon());
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), kLayerChannels - 1);
    EXPECT_TRUE(test::graph_crosses(*pair.sender, *pair.receiver, soon()));
}

TEST(Messages, several_are_held_and_given_back_in_any_order) {
    ConnectedPair pair(small_ring(), small_ring());
    std::vector<Message> held;
    const std::string text(100, 'h');
    int sent = 0;
    for (; pair.sender->try_send(1, bytes_of(text)) == Errc::ok; ++sent)
        held.push_back(pair.receiver->receive_message(soon()));
    EXPECT_EQ(pair.sender->try_send(1, bytes_of(text)), Errc::would_block) << "all is held";
    for (const Message& message : held) EXPECT_EQ(text_of(message), text);
    std::mt19937 random(5);
    std::shuffle(held.begin(), held.end(), random);
    while (!held.empty()) held.pop_back();
    for (int i = 0; i < sent; ++i) pair.sender->send_message(1, bytes_of(text), {}, soon());
}

TEST(Messages, no_more_than_sixty_four_are_held) {
    ConnectedPair pair;
    std::vector<Message> held(65);
    for (std::size_t i = 0; i < held.size(); ++i) pair.sender->send_message(1, {}, {}, soon());
    for (std::size_t i = 0; i < 64; ++i) held[i] = pair.receiver->receive_message(soon());
    EXPECT_EQ(pair.receiver->try_receive(held[64]), Errc::would_block);
    held[10].release();
    EXPECT_EQ(pair.receiver->try_receive(held[64]), Errc::ok) << "any other may be held";
    EXPECT_EQ(pair.receiver->try_receive(held[10]), Errc::would_block);
    const Error error =
        test::error_of([&] { (void)pair.receiver->receive_message(Deadline::after(20ms)); });
    EXPECT_EQ(error.code(), Errc::timeout);
    EXPECT_NE(std::string(error.what()).find("64 are held"), std::string::npos) << error.what();
}

// The ring's space behind it is all that bounds what follows.
TEST(Messages, held_for_long_let_others_pass_until_the_ring_is_full) {
    ConnectedPair pair(small_ring(), small_ring());
    // Not only its queue pair, which waits for acknowledgements.
    const auto is_sent = [&] {
        const Deadline deadline = Deadline::after(200ms);
        while (pair.sender->try_send(1, {}) != Errc::ok) {
            if (deadline.passed()) return false;
            (void)pair.sender->lane().poll();
        }
        return true;
    };
    ASSERT_TRUE(is_sent());
    const Message first = pair.receiver->receive_message(soon());
    int passed = 0;
    for (; is_sent(); ++passed) (void)pair.receiver->receive_message(soon());
    EXPECT_GT(passed, 100);
}

TEST(Handlers, that_keep_as_many_messages_as_can_be_held_are_warned) {
    ConnectedPair pair;
    std::vector<Message> kept;
    pair.receiver->on(1, [&](Message& message) { kept.push_back(std::move(message)); });
    test::CapturedLog log;
    for (std::size_t i = 0; i < 65; ++i) pair.sender->send_message(1, {}, {}, soon());
    const Deadline deadline = soon();
    while (kept.size() < 64 && !deadline.passed()) (void)pair.receiver->lane().poll();
    for (int i = 0; i < 10; ++i) (void)pair.receiver->lane().poll();
    EXPECT_EQ(kept.size(), 64u);
    EXPECT_EQ(test::count_of(log.text(), "64 messages are held"), 1u);
    kept.clear();
    while (kept.empty() && !deadline.passed()) (void)pair.receiver->lane().poll();
    EXPECT_EQ(kept.size(), 1u);
}

TEST(Messages, may_outlive_their_connection) {
    ConnectedPair pair;
    pair.sender->send_message(1, bytes_of("still there"), {}, soon());
    const Message message = pair.receiver->receive_message(soon());
    pair.receiver.reset();
    EXPECT_EQ(text_of(message), "still there");
}

// Over tcp and udp, else what arrives would wait for the engine thread; shared memory needs no
// poll.
TEST(Messages, looked_for_in_vain_let_the_lane_be_polled) {
    ConnectedPair pair;
    bool was_polled = false;
    pair.receiver->lane().submit([&]() noexcept { was_polled = true; });
    int looks = 0;
    for (Message message; !was_polled && looks < 1000; ++looks)
        ASSERT_EQ(pair.receiver->try_receive(message), Errc::would_block);
    const char* const port = std::getenv("VERBATIM_TEST_PORT");
    EXPECT_EQ(looks, port == nullptr ? 64 : 1);
}

TEST(Messages, that_do_not_come_end_a_wait_at_its_deadline) {
    ConnectedPair pair;
    try {
        pair.receiver->receive_message(Deadline::after(20ms));
        FAIL() << "there was nothing to receive";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::timeout);
    }
    EXPECT_EQ(pair.receiver->state(), Errc::ok);
}

TEST(Handlers, take_the_messages_of_their_channel_in_order) {
    ConnectedPair pair;
    std::string seen;
    pair.receiver->on(9, [&](Message& message) { seen += text_of(message); });
    for (const char* text : {"a", "b", "c"})
        pair.sender->send_message(9, bytes_of(text), {}, soon());
    const Deadline deadline = soon();
    while (seen.size() < 3 && !deadline.passed()) pair.receiver_context.lane().poll();
    EXPECT_EQ(seen, "abc");
}

TEST(Handlers, and_receivers_share_a_connection) {
    ConnectedPair pair;
    std::string seen;
    pair.receiver->on(9, [&](Message& message) { seen += text_of(message); });
    for (const std::uint8_t channel : Channels{1, 9, 2, 9, 3})
        pair.sender->send_message(
            channel, bytes_of(std::string(1, static_cast<char>('a' + channel))), {}, soon());
    for (const std::uint8_t channel : Channels{1, 2}) {
        const Message message = pair.receiver->receive_message(soon());
        EXPECT_EQ(message.channel(), channel);
        EXPECT_EQ(text_of(message), std::string(1, static_cast<char>('a' + channel)));
    }
    EXPECT_EQ(seen, "j") << "the second one lies behind what was received";
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 3);
    EXPECT_EQ(seen, "jj");
}

TEST(Handlers, that_ask_for_all_leave_other_messages_to_be_received) {
    ConnectedPair pair;
    std::string seen;
    pair.receiver->on(9, [&](Message& message) { seen += text_of(message); });
    for (const std::uint8_t channel : Channels{1, 9, 2, 9})
        pair.sender->send_message(channel, bytes_of("x"), {}, soon());
    for (const Deadline deadline = soon(); seen.size() < 2 && !deadline.passed();)
        EXPECT_EQ(pair.receiver->handle_all(), Errc::ok);
    EXPECT_EQ(seen, "xx");
    pair.sender->send_message(3, {}, {}, soon());
    for (const std::uint8_t channel : Channels{1, 2, 3})
        EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), channel);
}

TEST(Handlers, may_answer_hold_and_end_their_connection_but_not_block) {
    ConnectedPair pair;
    Message kept;
    Errc blocking = Errc::ok;
    pair.receiver->on(9, [&](Message& message) {
        EXPECT_EQ(pair.receiver->try_send(1, message.payload()), Errc::ok);
        kept = std::move(message);
        try {
            pair.receiver->receive_message(soon());
        } catch (const Error& error) {
            blocking = error.code();
        }
        pair.receiver.reset();
    });
    pair.sender->send_message(9, bytes_of("echo"), {}, soon());
    // Over tcp other things than the message may end a wait.
    while (pair.receiver) ASSERT_TRUE(pair.receiver_context.lane().wait(soon()));
    EXPECT_EQ(text_of(pair.sender->receive_message(soon())), "echo");
    EXPECT_EQ(blocking, Errc::would_deadlock);
    EXPECT_EQ(text_of(kept), "echo");
    kept.release();
    // What a handler has ended closes by further polls.
    const Deadline deadline = soon();
    while (pair.sender->progress() == Errc::ok && !deadline.passed())
        (void)pair.receiver_context.lane().poll();
    EXPECT_TRUE(pair.sender->peer_closed());
}

TEST(Handlers, are_set_once_for_a_channel) {
    ConnectedPair pair;
    pair.receiver->on(9, [](Message&) {});
    EXPECT_EQ(test::error_code_of([&] { pair.receiver->on(9, [](Message&) {}); }),
              Errc::invalid_argument);
}

void flush(Connection& connection) {
    const Deadline deadline = soon();
    Errc code = connection.try_flush();
    for (; code == Errc::would_block && !deadline.passed(); code = connection.try_flush()) {
    }
    ASSERT_EQ(code, Errc::ok);
}

TEST(OneSided, writes_land_whole_where_they_were_lent_and_nowhere_else) {
    ConnectedPair pair;
    Connection &from = *pair.sender, &to = *pair.receiver;
    constexpr std::size_t kBytes = std::size_t{5} << 20;  // over segment borders
    auto* source = static_cast<std::byte*>(from.arena().allocate(kBytes, 4096));
    auto* target = static_cast<std::byte*>(to.receive_arena().allocate(kBytes + 4096, 4096));
    std::memset(target, 0x11, kBytes + 4096);
    for (std::size_t i = 0; i < kBytes; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 4096);
    const Grant grant(to, {target, kBytes}, Access::remote_write);
    const std::span<const RemoteExtent> extents = grant.extents();
    const std::size_t count = extents.size();
    ASSERT_GT(count, 1u) << "the test wants several segments";
    std::size_t done = 0;
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t inside = 0; inside < extents[i].bytes;) {
            std::size_t written = 0;
            const Errc code =
                from.try_write(source + done, extents[i].bytes - inside,
                               extents[i].address + inside, extents[i].remote_key, written);
            ASSERT_TRUE(code == Errc::ok || code == Errc::would_block);
            inside += written;
            done += written;
        }
    flush(from);
    EXPECT_EQ(done, kBytes);
    EXPECT_EQ(std::memcmp(source, target, kBytes), 0);
    for (std::size_t i = kBytes; i < kBytes + 4096; ++i) ASSERT_EQ(target[i], std::byte{0x11});
}

// Eight bytes are copied by the caller's own thread, others read by the device.
TEST(OneSided, writes_of_any_length_from_memory_that_is_not_there_are_refused) {
    softnic::test::Child child([](softnic::test::Wire&) {
        ConnectedPair pair;
        auto* target = static_cast<std::byte*>(pair.receiver->receive_arena().allocate(64, 64));
        const Grant grant(*pair.receiver, {target, 64}, Access::remote_write);
        const RemoteExtent extent = grant.extents()[0];
        Arena& arena = pair.sender->arena();
        arena.deallocate(arena.allocate(64, 64), 64, 64);  // there is a segment
        const Arena::Segment segment = arena.segment(arena.segment_count() - 1);
        const std::byte* const end = segment.address + segment.bytes;
        const std::byte* const reserved_end = arena.base() + arena.reserved_bytes();
        int accepted = 0;
        for (const std::byte* from : {end, end - 4, reserved_end - 4096, reserved_end - 4})
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{16}}) {
                std::size_t written = 0;
                const Errc code =
                    pair.sender->try_write(from, bytes, extent.address, extent.remote_key, written);
                accepted += code == Errc::invalid_argument ? 0 : 1;
            }
        return accepted;
    });
    EXPECT_EQ(child.reap(), 0);
}

TEST(OneSided, writes_beyond_what_was_lent_end_the_connection_with_the_reason) {
    ConnectedPair pair;
    auto* source = static_cast<std::byte*>(pair.sender->arena().allocate(64, 64));
    std::size_t written = 0;
    ASSERT_EQ(pair.sender->try_write(source, 64, 4096, 0xbad, written), Errc::ok);
    const Deadline deadline = soon();
    Errc code = Errc::would_block;
    while (code == Errc::would_block && !deadline.passed()) code = pair.sender->try_flush();
    EXPECT_EQ(code, Errc::remote_access);
    try {
        pair.sender->check();
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("remote key 0xbad is not registered"),
                  std::string::npos)
            << error.what();
    }
    EXPECT_EQ(pair.sender->try_send(1, {}), Errc::remote_access);
}

TEST(Closing, delivers_everything_that_was_sent_and_then_says_so) {
    ConnectedPair pair(small_ring(), small_ring());
    for (std::uint8_t kind = 0; kind < 8; ++kind)
        pair.sender->send_message(kind, bytes_of("last words"), {}, soon());
    pair.sender.reset();
    for (std::uint8_t kind = 0; kind < 8; ++kind) {
        EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), kind);
        EXPECT_FALSE(pair.receiver->peer_closed());
    }
    try {
        pair.receiver->receive_message(soon());
        FAIL() << "there was nothing more";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::peer_lost);
    }
    EXPECT_TRUE(pair.receiver->peer_closed());
}

TEST(Closing, of_both_sides_at_once_waits_for_nobody) {
    for (int round = 0; round < 20; ++round) {
        ConnectedPair pair(small_ring(), small_ring());
        std::thread other([&] { pair.receiver.reset(); });
        pair.sender.reset();
        other.join();
    }
}

TEST(Contexts, meet_the_faults_that_their_configuration_names) {
    Config failing = small_config();
    failing.faults = "fail operations=send,write nth=20 syndrome=remote_access";
    ConnectedPair pair(failing);
    std::array<std::byte, 64> payload{};
    const Deadline deadline = soon();
    Errc code = Errc::ok;
    for (int sent = 0; code == Errc::ok || code == Errc::would_block;) {
        ASSERT_FALSE(deadline.passed()) << sent << " messages were sent, nothing failed";
        code = pair.sender->try_send(1, payload, {});
        sent += code == Errc::ok ? 1 : 0;
        Message message;
        (void)pair.receiver->try_receive(message);
    }
    EXPECT_NE(code, Errc::ok);
}

TEST(Contexts, refuse_faults_that_make_no_sense) {
    Config wrong = small_config();
    wrong.faults = "dorp nth=1";
    try {
        const Context context(wrong);
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        EXPECT_NE(std::string(error.what()).find("did you mean drop?"), std::string::npos);
    }
}

TEST(Contexts, carry_many_connections_side_by_side) {
    Context serving(small_ring()), calling(small_ring());
    Listener listener = serving.listen("127.0.0.1:0");
    std::vector<Connection> here, there;
    std::thread accepting([&] {
        for (int i = 0; i < 20; ++i) there.push_back(listener.accept(soon()));
    });
    for (int i = 0; i < 20; ++i)
        here.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
    accepting.join();
    for (int i = 0; i < 20; ++i)
        here[static_cast<std::size_t>(i)].send_message(1, bytes_of(std::to_string(i)), {}, soon());
    std::vector<bool> seen(20);
    for (Connection& connection : there) {
        const int which = std::stoi(text_of(connection.receive_message(soon())));
        EXPECT_FALSE(seen[static_cast<std::size_t>(which)]);
        seen[static_cast<std::size_t>(which)] = true;
    }
}

}  // namespace
}  // namespace verbatim

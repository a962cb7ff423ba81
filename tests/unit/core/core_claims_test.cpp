// Claims: messages that are written in place, in the ring's mirror, and sent in the order of their
// claims. Both ends also run as two threads, which is what the thread sanitizer can see.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core_messages.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::ConnectedPair;
using test::small_ring;
using test::soon;
using test::text_of;

void fill(const Claim& claim, const std::string& text) {
    std::memcpy(claim.bytes().data(), text.data(), text.size());
}
Claim claim_of(Connection& connection, std::uint8_t channel, std::size_t bytes) {
    Claim claim;
    const Deadline deadline = soon();
    while (connection.try_claim(channel, bytes, claim) == Errc::would_block && !deadline.passed())
        (void)connection.progress();
    EXPECT_TRUE(claim);
    return claim;
}
std::string next_text(ConnectedPair& pair) {
    return text_of(pair.receiver->receive_message(soon()));
}
// The same, where a full send queue keeps what was accepted until the sender polls.
std::string next_text_of_both(ConnectedPair& pair) {
    Message message;
    const Deadline deadline = soon();
    while (pair.receiver->try_receive(message) == Errc::would_block && !deadline.passed())
        (void)pair.sender->progress();
    return text_of(message);
}
bool hears_nothing(ConnectedPair& pair) {
    Message message;
    for (int i = 0; i < 50; ++i) {
        (void)pair.sender->progress();
        (void)pair.receiver->progress();
        if (pair.receiver->try_receive(message) != Errc::would_block) return false;
    }
    return true;
}

TEST(Claims, send_what_was_written_in_place) {
    ConnectedPair pair(small_ring(), small_ring());
    for (const std::size_t used : {0u, 1u, 7u, 8u, 9u, 100u, 1000u}) {
        Claim claim = claim_of(*pair.sender, 5, 1000);
        ASSERT_EQ(claim.bytes().size(), 1000u);
        const std::string text(used, 'c');
        fill(claim, text);
        EXPECT_EQ(claim.commit(used), Errc::ok);
        EXPECT_FALSE(claim);
        const Message message = pair.receiver->receive_message(soon());
        EXPECT_EQ(message.channel(), 5);
        EXPECT_EQ(text_of(message), text);
    }
}

TEST(Claims, are_sent_in_their_order_with_the_messages_between_them) {
    ConnectedPair pair(test::small_config(), test::small_config());
    Claim one = claim_of(*pair.sender, 1, 100), two = claim_of(*pair.sender, 2, 300);
    ASSERT_EQ(pair.sender->try_send(3, bytes_of("three")), Errc::ok);
    Claim four = claim_of(*pair.sender, 4, 50);
    ASSERT_EQ(pair.sender->try_batch(5, bytes_of("five")), Errc::ok);
    fill(four, "four"), fill(two, "two"), fill(one, "one");
    EXPECT_EQ(four.commit(4), Errc::ok);
    EXPECT_EQ(two.commit(3), Errc::ok);
    EXPECT_TRUE(hears_nothing(pair));
    EXPECT_EQ(one.commit(3), Errc::ok);
    for (const char* text : {"one", "two", "three", "four", "five"})
        EXPECT_EQ(next_text(pair), text);
    ASSERT_EQ(pair.sender->try_send(6, bytes_of("six")), Errc::ok);
    EXPECT_EQ(next_text(pair), "six");
}

TEST(Claims, that_end_without_commit_send_nothing_and_hold_nothing_up) {
    ConnectedPair pair(small_ring(), small_ring());
    for (int round = 0; round < 500; ++round) {
        // Always one is open behind those that are abandoned, so each leaves a gap.
        Claim first = claim_of(*pair.sender, 1, 40), second = claim_of(*pair.sender, 1, 200);
        Claim third = claim_of(*pair.sender, 1, 10);
        first = {}, second = {};
        const std::string text = "message " + std::to_string(round);
        if (round % 3 == 0) {
            Claim fourth = claim_of(*pair.sender, 1, 64);
            third = {};
            fill(fourth, text);
            ASSERT_EQ(fourth.commit(text.size()), Errc::ok);
        } else {
            third = {};
            pair.sender->send_message(1, bytes_of(text), {}, soon());
        }
        ASSERT_EQ(next_text_of_both(pair), text);
    }
}

// A chain of gaps, with no message in it, may be longer than the ring.
TEST(Claims, abandoned_for_ever_do_not_fill_the_ring) {
    ConnectedPair pair(small_ring(), small_ring());
    int heard = 0;
    pair.receiver->on(1, [&](Message&) { ++heard; });
    Claim last = claim_of(*pair.sender, 1, 100);
    const Deadline deadline = soon();
    for (int made = 0; made < 300 && !deadline.passed();) {
        Claim next;
        const Errc error = pair.sender->try_claim(1, 100, next);
        ASSERT_TRUE(error == Errc::ok || error == Errc::would_block);
        if (error == Errc::ok) last = std::move(next), ++made;
        (void)pair.sender->progress();
        (void)pair.receiver->progress();
    }
    EXPECT_EQ(last.commit(1), Errc::ok);
    while (heard == 0 && !deadline.passed()) (void)pair.receiver->progress();
    EXPECT_EQ(heard, 1);
}

TEST(Claims, are_bounded_and_their_refusal_is_a_status) {
    ConnectedPair pair(small_ring(), small_ring());
    std::vector<Claim> open(8);
    for (Claim& claim : open) ASSERT_EQ(pair.sender->try_claim(1, 8, claim), Errc::ok);
    Claim more;
    EXPECT_EQ(pair.sender->try_claim(1, 8, more), Errc::would_block);
    EXPECT_EQ(pair.sender->try_send(1, {}), Errc::would_block);
    EXPECT_EQ(pair.sender->try_claim(1, pair.sender->max_message_bytes() + 1, more),
              Errc::message_too_large);
    EXPECT_EQ(pair.sender->try_claim(1, 8, more, 16), Errc::invalid_argument);
    EXPECT_EQ(open[0].commit(9), Errc::invalid_argument) << "and it stays open";
    EXPECT_EQ(open[0].commit(8), Errc::ok);
    EXPECT_EQ(pair.sender->try_claim(1, 8, more), Errc::ok);
}

TEST(Claims, that_are_open_at_the_close_are_not_sent_but_what_is_behind_them_is) {
    ConnectedPair pair(small_ring(), small_ring());
    std::optional<Claim> open = claim_of(*pair.sender, 1, 100);
    ASSERT_EQ(pair.sender->try_send(1, bytes_of("behind")), Errc::ok);
    pair.sender.reset();
    fill(*open, std::string(100, 'x'));
    EXPECT_NE(open->commit(100), Errc::ok);
    EXPECT_EQ(next_text(pair), "behind");
    EXPECT_THROW(pair.receiver->receive_message(soon()), Error);
    EXPECT_TRUE(pair.receiver->peer_closed());
}

// Two claims of which nothing is left but a pad in the ring.
void leave_a_pad(Connection& connection, std::size_t bytes = 8) {
    Claim first = claim_of(connection, 1, bytes), second = claim_of(connection, 1, bytes);
    first = {}, second = {};
    const Deadline deadline = soon();
    do (void)connection.progress();
    while (connection.try_flush() == Errc::would_block && !deadline.passed());
}

TEST(Claims, that_leave_pads_do_not_swallow_the_credits_of_their_side) {
    ConnectedPair pair(small_ring(), small_ring());
    for (int i = 0; i < 40; ++i) {
        pair.sender->send_message(1, bytes_of(std::string(480, 'm')), {}, Deadline::after(5s));
        EXPECT_EQ(next_text(pair).size(), 480u);
        leave_a_pad(*pair.receiver);
    }
}

TEST(Claims, that_fill_both_rings_with_pads_stop_nobody) {
    ConnectedPair pair(small_ring(), small_ring());
    for (Connection* one : {&*pair.sender, &*pair.receiver}) {
        Claim last = claim_of(*one, 1, 8);
        for (int i = 0; i < 110; ++i) {
            Claim next;
            if (one->try_claim(1, 8, next) != Errc::ok) break;
            last = std::move(next);
        }
    }
    const std::string text(900, 'p');
    const Deadline deadline = soon();
    for (Connection* one : {&*pair.sender, &*pair.receiver})
        while (one->try_send(1, bytes_of(text)) == Errc::would_block) {
            ASSERT_FALSE(deadline.passed());
            (void)pair.sender->progress();
            (void)pair.receiver->progress();
        }
}

TEST(Claims, as_long_as_the_largest_ring_takes_leave_pads_too) {
    Config largest = test::small_config();
    largest.ring.bytes = std::size_t{64} << 20;
    largest.arena.max_bytes = largest.receive_arena.max_bytes = std::size_t{256} << 20;
    ConnectedPair pair(largest, largest);
    leave_a_pad(*pair.sender, pair.sender->max_message_bytes());
    ASSERT_EQ(pair.sender->try_send(1, bytes_of("behind")), Errc::ok);
    EXPECT_EQ(next_text(pair), "behind");
}

TEST(Claims, that_left_a_pad_last_do_not_hide_the_end) {
    ConnectedPair pair(small_ring(), small_ring());
    bool ended = false;
    pair.receiver->on_end([&] { ended = true; });
    ASSERT_EQ(pair.receiver->try_send(1, bytes_of("last")), Errc::ok);
    EXPECT_EQ(text_of(pair.sender->receive_message(soon())), "last");
    leave_a_pad(*pair.receiver);
    leave_a_pad(*pair.sender);
    (void)pair.sender->progress();  // takes the pad that has landed
    pair.sender.reset();
    const Deadline deadline = soon();
    while (!ended && !deadline.passed()) (void)pair.receiver->lane().poll();
    EXPECT_TRUE(ended);
    EXPECT_TRUE(pair.receiver->peer_took_all());
}

TEST(Claims, that_hold_messages_back_are_not_called_taken) {
    ConnectedPair pair(small_ring(), small_ring());
    const Claim open = claim_of(*pair.receiver, 1, 8);
    ASSERT_EQ(pair.receiver->try_send(1, bytes_of("behind")), Errc::ok);
    pair.sender.reset();
    const Deadline deadline = soon();
    while (pair.receiver->progress() == Errc::ok && !deadline.passed()) {
    }
    EXPECT_FALSE(pair.receiver->peer_took_all());
}

// Claims are opened, filled and closed in any order, some are abandoned; messages are sent between.
struct Stream {
    explicit Stream(Connection& to) : connection(to) {}
    void step() {
        const auto what = random() % 8;
        if (what < 3)
            open_one();
        else if (what < 6)
            close_one();
        else
            send_one(what == 7);
    }
    void open_one() {
        const std::string text(random() % 200, static_cast<char>('a' + sent % 26));
        Claim claim;
        if (connection.try_claim(1, text.size() + random() % 100, claim) != Errc::ok) return;
        fill(claim, text);
        claims.push_back({std::move(claim), order});
        expected.resize(order + 1);
        expected[order++] = text;
        ++sent;
    }
    void close_one() {
        if (claims.empty()) return;
        const auto at = claims.begin() + static_cast<std::ptrdiff_t>(random() % claims.size());
        if (random() % 4 == 0)
            expected[at->place].reset();
        else
            ASSERT_EQ(at->claim.commit(expected[at->place]->size()), Errc::ok);
        claims.erase(at);
    }
    void send_one(bool batched) {
        const std::string text(random() % 300, static_cast<char>('A' + sent % 26));
        const Errc error = batched ? connection.try_batch(1, bytes_of(text))
                                   : connection.try_send(1, bytes_of(text));
        if (error != Errc::ok) return;
        expected.push_back(text);
        ++order, ++sent;
    }

    struct Open {
        Claim claim;
        std::size_t place;
    };
    Connection& connection;
    std::mt19937_64 random{7};
    std::deque<Open> claims;
    std::size_t order = 0;
    int sent = 0;
    std::vector<std::optional<std::string>> expected;
};

TEST(Claims, keep_the_order_of_a_random_program_between_two_threads) {
    ConnectedPair pair(small_ring(), small_ring());
    std::vector<std::string> received;
    std::thread other([&] {
        for (std::string text; (text = next_text(pair)) != "the end";) received.push_back(text);
    });
    Stream stream(*pair.sender);
    const Deadline deadline = soon();
    while (stream.sent < 8000 && !deadline.passed()) {
        stream.step();
        (void)pair.sender->progress();
    }
    while (!stream.claims.empty()) stream.close_one();
    pair.sender->send_message(1, bytes_of("the end"), {}, soon());
    other.join();
    std::vector<std::string> expected;
    for (const auto& text : stream.expected)
        if (text) expected.push_back(*text);
    EXPECT_GT(expected.size(), 1000u);
    EXPECT_EQ(received, expected);
}

}  // namespace
}  // namespace verbatim

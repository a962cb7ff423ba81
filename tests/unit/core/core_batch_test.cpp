// Batches: messages that wait for others and travel by one write, among messages and writes that do
// not wait. Both ends also run as two threads, which is what the thread sanitizer can see.
#include <gtest/gtest.h>

#include <atomic>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

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

// The i-th message of a stream; some are too long for a batch.
std::string nth_text(int i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    std::string text(random() % (i % 16 == 0 ? 600 : 40), '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

void send_stream(Connection& connection, int count) {
    const Deadline deadline = soon();
    for (int i = 0, idle = 0; i < count;) {
        ASSERT_FALSE(deadline.passed()) << i;
        const std::string text = nth_text(i);
        const auto head = bytes_of(text).first(text.size() / 2);
        const auto body = bytes_of(text).subspan(text.size() / 2);
        const auto channel = static_cast<std::uint8_t>(i % 8);
        const auto kind = static_cast<std::uint8_t>(i % 16);
        const Errc code = i % 64 == 63 ? connection.try_send(channel, head, body, kind)
                                       : connection.try_batch(channel, head, body, kind);
        ASSERT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
        i += code == Errc::ok ? 1 : 0;
        idle = code == Errc::ok ? 0 : idle + 1;
        if (idle != 0) connection.pause(static_cast<unsigned>(idle), deadline);
    }
    (void)connection.progress();
}

// Holds some of what it receives for a while.
void receive_stream(Connection& connection, int count) {
    std::array<Message, 40> held;
    for (int i = 0; i < count; ++i) {
        Message message = connection.receive_message(soon());
        ASSERT_EQ(text_of(message), nth_text(i)) << i;
        ASSERT_EQ(message.channel(), i % 8);
        ASSERT_EQ(message.kind(), i % 16);
        held[static_cast<std::size_t>(i * 7) % held.size()] = std::move(message);
    }
}

TEST(Batches, keep_the_order_of_all_messages_between_two_threads) {
    for (const std::size_t ring : {std::size_t{64} << 10, std::size_t{1} << 20}) {
        Config config = small_config();
        config.ring.bytes = ring;
        ConnectedPair pair(config, config);
        std::atomic<bool> over = false;
        std::thread other([&] {
            receive_stream(*pair.receiver, 20000);
            over = true;
        });
        send_stream(*pair.sender, 20000);
        // The last batch may have found the send queue full: it goes with a later poll.
        while (!over) (void)pair.sender->progress();
        other.join();
    }
}

TEST(Batches, go_with_the_next_poll_and_not_before) {
    ConnectedPair pair(small_config(), small_config());
    ASSERT_EQ(pair.sender->try_batch(1, bytes_of("one")), Errc::ok);
    ASSERT_EQ(pair.sender->try_batch(2, {}), Errc::ok);
    for (int i = 0; i < 50; ++i) (void)pair.receiver->progress();
    Message message;
    EXPECT_EQ(pair.receiver->try_receive(message), Errc::would_block);
    (void)pair.sender->lane().poll();
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "one");
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 2);
}

TEST(Batches, go_before_a_message_a_write_and_the_close_that_follow_them) {
    ConnectedPair pair(small_config(), small_config());
    ASSERT_EQ(pair.sender->try_batch(1, bytes_of("first")), Errc::ok);
    ASSERT_EQ(pair.sender->try_send(1, bytes_of("second")), Errc::ok);
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "first");
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "second");

    auto* target = static_cast<std::byte*>(pair.receiver->receive_arena().allocate(64, 64));
    const Grant grant(*pair.receiver, {target, 64}, Access::remote_write);
    const RemoteExtent extent = grant.extents()[0];
    auto* source = static_cast<std::byte*>(pair.sender->arena().allocate(64, 64));
    ASSERT_EQ(pair.sender->try_batch(1, bytes_of("third")), Errc::ok);
    std::size_t written = 0;
    ASSERT_EQ(pair.sender->try_write(source, 64, extent.address, extent.remote_key, written),
              Errc::ok);
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "third");

    ASSERT_EQ(pair.sender->try_batch(1, bytes_of("last")), Errc::ok);
    pair.sender.reset();
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "last");
    EXPECT_THROW(pair.receiver->receive_message(soon()), Error);
    EXPECT_TRUE(pair.receiver->peer_closed());
}

TEST(Batches, that_find_the_ring_full_are_a_status_and_lose_nothing) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::string text(56, 'b');
    int accepted = 0;
    while (pair.sender->try_batch(1, bytes_of(text)) == Errc::ok) ASSERT_LT(++accepted, 1000);
    EXPECT_GE(accepted, 4096 / 64 - 24) << "a batch needs little beside its messages";
    EXPECT_EQ(pair.sender->try_batch(1, bytes_of(text)), Errc::would_block);
    (void)pair.sender->progress();
    for (int i = 0; i < accepted; ++i)
        EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), text);
    Message message;
    EXPECT_EQ(pair.receiver->try_receive(message), Errc::would_block);
    // Credits come back, on a device some time later.
    const Deadline deadline = soon();
    while (pair.sender->try_batch(1, bytes_of(text)) == Errc::would_block) {
        ASSERT_FALSE(deadline.passed());
        (void)pair.sender->progress();
    }
}

TEST(Batches, refuse_what_messages_refuse) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::string text(pair.sender->max_message_bytes() + 1, 'x');
    EXPECT_EQ(pair.sender->try_batch(1, bytes_of(text)), Errc::message_too_large);
    EXPECT_EQ(pair.sender->try_batch(1, {}, {}, 16), Errc::invalid_argument);
}

TEST(Batches, of_a_connection_that_its_own_handler_ends_are_sent) {
    ConnectedPair pair(small_config(), small_config());
    pair.receiver->on(1, [&](Connection& connection, Message&) {
        EXPECT_EQ(connection.try_batch(2, bytes_of("farewell")), Errc::ok);
        pair.receiver.reset();
    });
    ASSERT_EQ(pair.sender->try_send(1, {}), Errc::ok);
    const Deadline deadline = soon();
    while (pair.receiver && !deadline.passed()) (void)pair.receiver->lane().poll();
    EXPECT_EQ(text_of(pair.sender->receive_message(soon())), "farewell");
}

// Each side sleeps as soon as it waits, and goes on only when it was woken.
TEST(Batches, wake_a_receiver_that_sleeps) {
    Config sleepy = small_config();
    sleepy.lane.mode = LaneMode::event;
    ConnectedPair pair(sleepy, sleepy);
    std::thread other([&] {
        for (int i = 0; i < 100; ++i) {
            for (int one = 0; one < 2; ++one)
                ASSERT_EQ(pair.receiver->receive_message(soon()).channel(), 5);
            ASSERT_EQ(pair.receiver->try_batch(6, {}), Errc::ok);
            (void)pair.receiver->progress();
        }
    });
    for (int i = 0; i < 100; ++i) {
        for (int one = 0; one < 2; ++one) EXPECT_EQ(pair.sender->try_batch(5, {}), Errc::ok);
        (void)pair.sender->progress();
        EXPECT_EQ(pair.sender->receive_message(soon()).channel(), 6);
    }
    other.join();
}

}  // namespace
}  // namespace verbatim

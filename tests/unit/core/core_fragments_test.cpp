// Messages that are longer than a record of the ring. Both ends also run as two threads, which is
// what the thread sanitizer can see.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core_fault.hpp"
#include "core_messages.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::ConnectedPair;
using test::error_of;
using test::small_ring;
using test::soon;
using test::text_of;

std::string random_text(std::size_t bytes) {
    std::mt19937_64 random(bytes);
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}
void send(Connection& connection, std::uint8_t channel, const std::string& text) {
    const std::size_t cut = text.size() / 3;
    connection.send_message(channel, bytes_of(text).first(cut), bytes_of(text).subspan(cut),
                            soon());
}

TEST(LongMessages, of_every_length_around_the_limits_arrive_whole) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::size_t most = pair.sender->max_message_bytes(), piece = most - 16;
    const std::vector<std::size_t> lengths = {most,          most + 1,  piece * 2 - 1, piece * 2,
                                              piece * 2 + 1, piece * 3, piece * 3 + 1, 100000};
    std::thread other([&] {
        for (const std::size_t bytes : lengths) send(*pair.sender, 7, random_text(bytes));
    });
    for (const std::size_t bytes : lengths) {
        const Message message = pair.receiver->receive_message(soon());
        EXPECT_EQ(message.channel(), 7);
        EXPECT_EQ(text_of(message), random_text(bytes)) << bytes;
    }
    other.join();
}

TEST(LongMessages, cross_with_others_of_their_connection_and_reach_handlers) {
    ConnectedPair pair(small_ring(), small_ring());
    int heard = 0, asked = 0;
    pair.receiver->on(9, [&](Connection& connection, Message& message) {
        EXPECT_EQ(text_of(message), random_text(50000 + static_cast<std::size_t>(heard)));
        ++heard;
        EXPECT_EQ(connection.try_send(1, {}), Errc::ok);
    });
    // Answers while this side's long message is under way.
    pair.sender->on(1, [&](Connection& connection, Message&) {
        ++asked;
        (void)connection.try_send(2, {});
    });
    pair.receiver->on(2, [](Message&) {});
    std::thread other([&] {
        const Deadline deadline = soon();
        for (unsigned idle = 0; heard < 20 && !deadline.passed();)
            idle = pair.receiver->lane().poll() != 0 ? 0 : idle + 1;
    });
    for (std::size_t i = 0; i < 20; ++i) send(*pair.sender, 9, random_text(50000 + i));
    other.join();
    EXPECT_EQ(heard, 20);
    const Deadline deadline = soon();
    while (asked < 20 && !deadline.passed()) (void)pair.sender->progress();
    EXPECT_EQ(asked, 20);
}

TEST(LongMessages, beyond_what_the_peer_takes_are_refused_before_anything_is_sent) {
    Config modest = small_ring();
    modest.ring.longest_message = 10000;
    ConnectedPair pair(small_ring(), modest);
    EXPECT_EQ(pair.sender->longest_message_bytes(), 10000u);
    const Error error = error_of([&] { send(*pair.sender, 1, random_text(10001)); });
    EXPECT_EQ(error.code(), Errc::message_too_large);
    send(*pair.sender, 1, "short");
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "short");
}

TEST(LongMessages, that_their_sender_gave_up_are_never_received) {
    ConnectedPair pair(small_ring(), small_ring());
    const Error error = error_of([&] {
        pair.sender->send_message(1, bytes_of(random_text(20000)), {}, Deadline::after(50ms));
    });
    EXPECT_EQ(error.code(), Errc::timeout);
    std::thread other([&] { send(*pair.sender, 2, random_text(30000)); });
    const Message message = pair.receiver->receive_message(soon());
    EXPECT_EQ(message.channel(), 2);
    EXPECT_EQ(text_of(message), random_text(30000));
    other.join();
}

TEST(LongMessages, that_wait_for_a_held_message_are_explained) {
    ConnectedPair pair(small_ring(), small_ring());
    test::CapturedLog log;
    std::thread other([&] {
        send(*pair.sender, 1, "short");
        send(*pair.sender, 1, random_text(20000));
    });
    Message held = pair.receiver->receive_message(soon());
    const Error error = error_of([&] { pair.receiver->receive_message(Deadline::after(300ms)); });
    EXPECT_EQ(error.code(), Errc::timeout);
    EXPECT_NE(std::string(error.what()).find("1 is held"), std::string::npos) << error.what();
    EXPECT_NE(log.text().find("release them"), std::string::npos) << log.text();
    held.release();
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), random_text(20000));
    other.join();
}

TEST(LongMessages, may_be_held_beyond_their_connection) {
    ConnectedPair pair(small_ring(), small_ring());
    std::thread other([&] { send(*pair.sender, 1, random_text(5000)); });
    const Message message = pair.receiver->receive_message(soon());
    other.join();
    pair.receiver.reset();
    EXPECT_EQ(text_of(message), random_text(5000));
}

}  // namespace
}  // namespace verbatim

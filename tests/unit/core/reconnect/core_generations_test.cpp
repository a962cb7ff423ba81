// Parts of reconnecting without sockets: what is remembered of clients, which messages are in
// doubt, the pauses, and the hello extension.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "bootstrap/hello.hpp"
#include "core_fault.hpp"
#include "generations/generations.hpp"
#include "reconnect/reconnect_pause.hpp"
#include "reconnect/unsettled.hpp"

namespace verbatim {
namespace {

ClientIdentity client(std::uint16_t number, std::uint64_t generation) {
    ClientIdentity who;
    std::memcpy(who.id.data(), &number, sizeof number);
    who.generation = generation;
    return who;
}

TEST(Generations, refuse_a_generation_that_is_not_newer) {
    const auto all = std::make_shared<Generations>();
    EXPECT_NE(all->admit(client(1, 5), "peer"), nullptr);
    for (const std::uint64_t late : {5U, 4U, 1U}) {
        const Error error = test::error_of([&] { (void)all->admit(client(1, late), "peer"); });
        EXPECT_EQ(error.code(), Errc::protocol_error);
        EXPECT_TRUE(test::says(error, "generation 5 of that client is known"));
    }
    EXPECT_NE(all->admit(client(2, 1), "another"), nullptr);
    EXPECT_NE(all->admit(client(1, 6), "peer"), nullptr);
}

TEST(Generations, tell_a_handshake_that_a_newer_one_has_begun) {
    const auto all = std::make_shared<Generations>();
    const auto first = all->admit(client(1, 1), "peer");
    EXPECT_TRUE(first->may_connect("peer"));
    const auto second = all->admit(client(1, 2), "peer");
    EXPECT_EQ(test::error_of([&] { (void)first->may_connect("peer"); }).code(),
              Errc::protocol_error);
    EXPECT_TRUE(second->may_connect("peer"));
}

TEST(Generations, end_the_older_connection_first_in_the_thread_of_its_lane) {
    Context context(test::small_config());
    Lane lane = context.make_lane();
    const auto all = std::make_shared<Generations>();
    int ended = 0;
    const auto older = all->admit(client(1, 1), "peer");
    older->attach(lane.impl(), {&ended, [](void* count) noexcept { ++*static_cast<int*>(count); }},
                  "peer");
    const auto newer = all->admit(client(1, 2), "peer");
    EXPECT_FALSE(newer->may_connect("peer"));
    EXPECT_EQ(test::error_code_of([&] { newer->attach(lane.impl(), {}, "peer"); }),
              Errc::protocol_error);
    EXPECT_EQ(ended, 0) << "its lane has not polled";
    (void)lane.poll();
    EXPECT_EQ(ended, 1);
    older->detach();
    EXPECT_TRUE(newer->may_connect("peer"));
    newer->attach(lane.impl(), {}, "peer");
    newer->detach();
}

TEST(Generations, ask_again_on_the_lane_to_which_a_connection_has_moved) {
    Context context(test::small_config());
    Lane first = context.make_lane(), second = context.make_lane();
    const auto all = std::make_shared<Generations>();
    int ended = 0;
    const auto older = all->admit(client(1, 1), "peer");
    older->attach(first.impl(), {&ended, [](void* count) noexcept { ++*static_cast<int*>(count); }},
                  "peer");
    (void)all->admit(client(1, 2), "peer");
    older->moved_to(second.impl());
    (void)first.poll();
    EXPECT_EQ(ended, 0) << "it lives on another thread now";
    (void)second.poll();
    EXPECT_EQ(ended, 1);
    older->detach();
}

TEST(Generations, forget_the_least_recently_seen_but_none_that_has_a_connection) {
    Context context(test::small_config());
    Lane lane = context.make_lane();
    const auto all = std::make_shared<Generations>();
    const auto live = all->admit(client(0, 9), "live");
    live->attach(lane.impl(), {}, "live");
    for (std::uint16_t n = 1; n <= Generations::kMost + 10; ++n) (void)all->admit(client(n, 7), "");
    EXPECT_EQ(all->size(), Generations::kMost);
    EXPECT_EQ(test::error_code_of([&] { (void)all->admit(client(0, 9), ""); }),
              Errc::protocol_error);
    EXPECT_EQ(test::error_code_of([&] {
                  (void)all->admit(client(static_cast<std::uint16_t>(Generations::kMost), 7), "");
              }),
              Errc::protocol_error);
    EXPECT_NE(all->admit(client(1, 1), "forgotten"), nullptr);
    live->detach();
}

// The model keeps every message. The bounded list may know less, never more.
TEST(Unsettled, never_takes_for_taken_what_was_not) {
    std::minstd_rand random(7);
    Unsettled list;
    std::deque<std::uint64_t> ends;  // of messages that are in doubt
    std::uint64_t position = 0, settled = 0;
    for (int step = 0; step != 100000; ++step) {
        if (random() % 3 != 0) {
            position += 32 * (1 + random() % 8);
            list.accept(random() % 50 == 0 ? Unsettled::kUnknown : position);
            ends.push_back(position);
        } else {
            const std::uint64_t credit =
                position - std::min<std::uint64_t>(position, random() % 9000);
            list.take(credit);
            for (; !ends.empty() && ends.front() <= credit; ends.pop_front()) ++settled;
        }
        ASSERT_LE(list.settled(), settled);
    }
    list.resolve(position);
    list.take(position);
    EXPECT_EQ(list.settled(), list.accepted());
}

TEST(Unsettled, is_exact_while_few_messages_are_in_doubt) {
    Unsettled list;
    for (std::uint64_t n = 1; n <= Unsettled::kMost; ++n) list.accept(n * 32);
    for (std::uint64_t n = 1; n <= Unsettled::kMost; ++n) {
        list.take(n * 32 - 1);
        EXPECT_EQ(list.settled(), n - 1);
        list.take(n * 32);
        EXPECT_EQ(list.settled(), n);
    }
    list.accept(1);
    list.clear();
    EXPECT_EQ(list.settled(), list.accepted());
}

TEST(ReconnectPause, doubles_to_the_longest_and_half_of_it_is_random) {
    using namespace std::chrono_literals;
    ReconnectPause pauses(10ms, 50ms, 3);
    for (const auto longest : {10ms, 20ms, 40ms, 50ms, 50ms}) {
        const auto pause = pauses.next();
        EXPECT_GE(pause, std::chrono::microseconds(longest) / 2);
        EXPECT_LE(pause, longest);
    }
    pauses.reset();
    EXPECT_LE(pauses.next(), 10ms);
}

Hello hello_of(const std::optional<ClientIdentity>& who) {
    Hello hello;
    hello.queue_pair.kind = 1;
    hello.queue_pair.mtu_log2 = 12;
    hello.ring_bytes = 65536;
    hello.said.client = who;
    return hello;
}

TEST(ClientExtension, comes_back_as_it_was_and_is_optional) {
    const ClientIdentity who = client(77, 1234567890123);
    EXPECT_EQ(parse_hello(encode_hello(hello_of(who))).said.client, who);
    EXPECT_FALSE(parse_hello(encode_hello(hello_of({}))).said.client);
}

TEST(ClientExtension, is_refused_where_it_is_short_or_names_no_generation) {
    EXPECT_EQ(test::error_code_of([] { (void)parse_hello(encode_hello(hello_of(client(1, 0)))); }),
              Errc::protocol_error);
    auto bytes = encode_hello(hello_of(client(1, 1)));
    bytes.resize(bytes.size() - 8);
    bytes[bytes.size() - 16 - 4] = std::byte{16};  // its length
    EXPECT_EQ(test::error_code_of([&] { (void)parse_hello(bytes); }), Errc::protocol_error);
}

}  // namespace
}  // namespace verbatim

// Lanes: many connections and few polls, sleep without a lost wake-up, an epoll loop of one's own,
// a lane for each thread.
#include <gtest/gtest.h>
#include <poll.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "lane/lane_impl.hpp"
#include "pair/connected_pair.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::ConnectedPair;

Deadline soon() { return Deadline::after(60s); }

Config lane_config(LaneMode mode, std::uint32_t hot = 16) {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.mode = mode;
    config.lane.hot = hot;
    return config;
}

std::uint64_t number_of(const Message& message) {
    std::uint64_t number = 0;
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}

// Computes for a moment, without a system call.
void compute(std::uint64_t rounds) {
    for (volatile std::uint64_t left = rounds; left != 0;) left = left - 1;
}

std::chrono::nanoseconds cpu_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Connections between two contexts, as many as wanted.
struct Many {
    Many(std::size_t count, const Config& here, const Config& there)
        : calling(here), serving(there) {
        Listener listener = serving.listen("127.0.0.1:0");
        for (std::size_t i = 0; i < count; ++i) {  // one by one: so both ends have one index
            std::thread accepting([&] { accepted.push_back(listener.accept(soon())); });
            called.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
            accepting.join();
        }
    }
    Context calling, serving;
    std::vector<Connection> called, accepted;
};

// A lost wake-up ends a wait at its deadline, which fails the test.
void answer(Connection& connection, std::uint64_t rounds) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
        const Message message = connection.receive_message(soon());
        connection.send_message(2, message.payload(), {}, soon());
    }
}

class Sleep : public testing::TestWithParam<std::tuple<LaneMode, LaneMode>> {};

TEST_P(Sleep, loses_no_wake_up_whenever_the_peer_sends) {
    ConnectedPair pair(lane_config(std::get<0>(GetParam())), lane_config(std::get<1>(GetParam())));
    constexpr std::uint64_t kRounds = 3000;
    std::thread other([&] { answer(*pair.receiver, kRounds); });
    std::mt19937_64 random(11);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        compute(random() % 20000);
        pair.sender->send_message(1, bytes_of(i), {}, soon());
        ASSERT_EQ(number_of(pair.sender->receive_message(soon())), i);
    }
    other.join();
}

TEST_P(Sleep, of_a_sender_ends_when_the_ring_has_room) {
    ConnectedPair pair(lane_config(std::get<0>(GetParam())), lane_config(std::get<1>(GetParam())));
    constexpr std::uint64_t kMessages = 5000;
    std::thread other([&] {
        std::mt19937_64 random(12);
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            if (i % 100 == 0) compute(random() % 200000);  // the ring fills
            ASSERT_EQ(number_of(pair.receiver->receive_message(soon())), i);
        }
    });
    for (std::uint64_t i = 0; i < kMessages; ++i)
        pair.sender->send_message(1, bytes_of(i), {}, soon());
    other.join();
}

INSTANTIATE_TEST_SUITE_P(OfModes, Sleep,
                         testing::Values(std::tuple(LaneMode::event, LaneMode::event),
                                         std::tuple(LaneMode::adaptive, LaneMode::adaptive),
                                         std::tuple(LaneMode::event, LaneMode::busy),
                                         std::tuple(LaneMode::busy, LaneMode::busy)));

TEST(Lane, that_sleeps_uses_no_processor) {
    ConnectedPair pair(lane_config(LaneMode::adaptive), lane_config(LaneMode::adaptive));
    const auto before = cpu_time();
    EXPECT_EQ(test::error_code_of([&] { pair.receiver->receive_message(Deadline::after(500ms)); }),
              Errc::timeout);
    EXPECT_LT(cpu_time() - before, 50ms);
}

TEST(Lane, polls_at_most_its_hot_connections) {
    constexpr std::size_t kCount = 40;
    Many many(kCount, lane_config(LaneMode::adaptive), lane_config(LaneMode::adaptive, 4));
    Lane lane = many.serving.lane();
    EXPECT_EQ(lane.connections(), kCount);
    std::vector<std::uint64_t> next(kCount);
    std::uint64_t received = 0;
    for (std::size_t i = 0; i < kCount; ++i)
        many.accepted[i].on(1, [&, i](Message& message) {
            EXPECT_EQ(number_of(message), next[i]++);
            ++received;
        });
    std::mt19937_64 random(13);
    std::vector<std::uint64_t> sent(kCount);
    for (std::uint64_t total = 1; total <= 4000; ++total) {
        const std::size_t which = random() % kCount;
        many.called[which].send_message(1, bytes_of(sent[which]), {}, soon());
        ++sent[which];
        for (const Deadline deadline = soon(); received < total && !deadline.passed();)
            many.calling.lane().poll(), lane.poll();
        ASSERT_EQ(received, total);
    }
    EXPECT_EQ(next, sent);
    for (int i = 0; i < 100; ++i) many.calling.lane().poll(), lane.poll();
    EXPECT_LE(lane.impl()->polled().size(), 4u);
}

TEST(Lane, polls_none_of_those_that_it_has_armed_for_a_sleep) {
    Many many(3, lane_config(LaneMode::event), lane_config(LaneMode::event));
    Lane lane = many.serving.lane();
    for (int i = 0; i < 100; ++i) (void)lane.poll();
    ASSERT_GE(lane.impl()->polled().size(), 1u);
    for (const Deadline deadline = soon(); !lane.prepare_to_sleep();) {
        ASSERT_FALSE(deadline.passed());
        (void)lane.poll();
        (void)many.calling.lane().poll();
    }
    (void)lane.poll();
    EXPECT_EQ(lane.impl()->polled().size(), 0u);
}

// Nothing of the peer's tells of it.
TEST(Lane, goes_on_with_what_was_begun_behind_polls_that_found_nothing) {
    ConnectedPair pair;
    Lane lane = pair.sender->lane();
    for (std::uint64_t round = 1; round <= 20; ++round) {
        for (int i = 0; i < 100; ++i) (void)lane.poll();
        ASSERT_EQ(pair.sender->try_batch(1, bytes_of(round)), Errc::ok);
        for (int i = 0; i < 100; ++i) (void)lane.poll();
        ASSERT_EQ(number_of(pair.receiver->receive_message(soon())), round);
    }
}

TEST(Lane, tells_a_late_handler_of_what_came_before_it) {
    ConnectedPair pair;
    Lane lane = pair.receiver->lane();
    const std::uint64_t early = 1, late = 2;
    ASSERT_EQ(pair.sender->try_send(1, bytes_of(early)), Errc::ok);
    for (int i = 0; i < 1000; ++i) (void)lane.poll();
    std::uint64_t heard = 0;
    const auto hear = [&](Message& message) { heard = number_of(message); };
    const auto await = [&](std::uint64_t number) {
        for (const Deadline deadline = soon(); heard != number && !deadline.passed();)
            (void)lane.poll();
        EXPECT_EQ(heard, number);
    };
    pair.receiver->on(1, hear);
    await(early);
    for (int i = 0; i < 100; ++i) (void)lane.poll();
    pair.receiver->on(2, hear);
    ASSERT_EQ(pair.sender->try_send(2, bytes_of(late)), Errc::ok);
    await(late);
}

TEST(Lane, wakes_an_epoll_loop_of_its_own) {
    constexpr std::size_t kCount = 20;
    Many many(kCount, lane_config(LaneMode::adaptive), lane_config(LaneMode::event));
    std::uint64_t received = 0;
    for (Connection& connection : many.accepted) connection.on(1, [&](Message&) { ++received; });
    constexpr std::uint64_t kTotal = 2000;
    std::thread sending([&] {
        std::mt19937_64 random(14);
        for (std::uint64_t i = 0; i < kTotal; ++i) {
            compute(random() % 20000);
            many.called[random() % kCount].send_message(1, bytes_of(i), {}, soon());
        }
    });
    Lane lane = many.serving.lane();
    for (const Deadline deadline = soon(); received < kTotal && !deadline.passed();) {
        if (!lane.prepare_to_sleep()) {
            lane.poll();
            continue;
        }
        pollfd entry{lane.descriptor(), POLLIN, 0};
        ASSERT_EQ(::poll(&entry, 1, 30000), 1) << "nothing woke the loop";
        lane.poll();
    }
    sending.join();
    EXPECT_EQ(received, kTotal);
}

TEST(Lane, serves_a_thread_of_its_own) {
    Context serving(lane_config(LaneMode::adaptive)), calling(lane_config(LaneMode::adaptive));
    Listener listener = serving.listen("127.0.0.1:0");
    constexpr std::size_t kThreads = 4;
    constexpr std::uint64_t kRounds = 500;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            const Lane lane = calling.make_lane();
            Connection connection =
                calling.connect("127.0.0.1:" + std::to_string(listener.port()), lane);
            answer(connection, kRounds);
        });
    std::vector<Connection> accepted;
    for (std::size_t i = 0; i < kThreads; ++i) accepted.push_back(listener.accept(soon()));
    for (std::uint64_t round = 0; round < kRounds; ++round) {
        for (Connection& connection : accepted)
            connection.send_message(1, bytes_of(round), {}, soon());
        for (Connection& connection : accepted)
            ASSERT_EQ(number_of(connection.receive_message(soon())), round);
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(Lane, of_another_context_is_refused) {
    Context mine(lane_config(LaneMode::event)), other(lane_config(LaneMode::event));
    Listener listener = mine.listen("127.0.0.1:0");
    const std::string address = "127.0.0.1:" + std::to_string(listener.port());
    EXPECT_EQ(test::error_code_of([&] { mine.connect(address, other.lane()); }),
              Errc::invalid_argument);
    EXPECT_EQ(test::error_code_of([&] { listener.accept(other.make_lane(), soon()); }),
              Errc::invalid_argument);
}

TEST(Lane, makes_connections_in_its_tasks_but_not_in_its_handlers) {
    ConnectedPair pair(lane_config(LaneMode::event), lane_config(LaneMode::event));
    Context& context = pair.receiver_context;
    Listener listener = pair.sender_context.listen("127.0.0.1:0");
    const std::string address = "127.0.0.1:" + std::to_string(listener.port());
    std::vector<Errc> codes;
    pair.receiver->on(9, [&](Message&) {
        Listener own = context.listen("127.0.0.1:0");
        codes = {test::error_code_of([&] { context.connect(address); }),
                 test::error_code_of([&] { own.accept(soon()); })};
    });
    pair.sender->send_message(9, {}, {}, soon());
    while (codes.empty() && context.lane().wait(soon())) {
    }
    EXPECT_EQ(codes, std::vector<Errc>(2, Errc::would_deadlock));
    std::thread accepting([&] { const Connection accepted = listener.accept(soon()); });
    Errc code = Errc::would_block;
    context.lane().submit(
        [&]() noexcept { code = test::error_code_of([&] { context.connect(address); }); });
    context.lane().poll();
    accepting.join();
    EXPECT_EQ(code, Errc::ok);
}

TEST(Lane, calls_of_its_own_thread_run_at_once_in_tasks_and_are_refused_elsewhere) {
    Context context(lane_config(LaneMode::event));
    Lane lane = context.lane();
    int value = 0;
    lane.submit([&]() noexcept { value = lane.call([] { return 7; }); });
    (void)lane.poll();
    EXPECT_EQ(value, 7);
    bool has_run = false;
    EXPECT_EQ(test::error_code_of([&] { lane.call([&] { has_run = true; }); }),
              Errc::would_deadlock);
    (void)lane.poll();
    EXPECT_FALSE(has_run);
}

TEST(Lane, senders_one_after_the_other_use_the_same_room_of_its_inbox) {
    Many many(3, lane_config(LaneMode::event), lane_config(LaneMode::event));
    Lane lane = many.called.front().lane();
    while (!many.called.empty()) {
        EXPECT_EQ(many.called.back().sender().try_send(1, {}), Errc::ok);
        many.called.pop_back();
        (void)lane.poll();  // takes what the sender had queued
    }
    EXPECT_EQ(lane.impl()->inbox().most_reserved(), 1u);
}

#if !defined(NDEBUG)
// Hands a message to another thread, which gives it back while this one is inside the lane.
void give_back_elsewhere() {
    ConnectedPair pair(lane_config(LaneMode::event), lane_config(LaneMode::event));
    pair.receiver->on(9, [](Message& message) { std::thread([&] { message.release(); }).join(); });
    pair.sender->send_message(9, {}, {}, soon());
    while (pair.receiver_context.lane().wait(soon())) {
    }
}

// The same with a claim.
template <class End>
void end_claim_elsewhere(End end) {
    ConnectedPair pair(lane_config(LaneMode::event), lane_config(LaneMode::event));
    pair.receiver->on(9, [&](Connection& connection, Message&) {
        Claim claim;
        EXPECT_EQ(connection.try_claim(9, 8, claim), Errc::ok);
        std::thread([&] { end(claim); }).join();
    });
    pair.sender->send_message(9, {}, {}, soon());
    while (pair.receiver_context.lane().wait(soon())) {
    }
}

TEST(Lane, does_not_let_another_thread_end_a_claim) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(end_claim_elsewhere([](Claim& claim) { (void)claim.commit(8); }),
                 "a lane whose claim is committed is used by two threads");
    EXPECT_DEATH(end_claim_elsewhere([](Claim& claim) { claim = Claim(); }),
                 "a lane whose claim is abandoned is used by two threads");
}

TEST(Lane, does_not_let_another_thread_give_back_a_message) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(give_back_elsewhere(),
                 "a lane whose message is given back is used by two threads");
}
#endif

TEST(Lane, notices_the_end_of_one_connection_beside_others) {
    Many many(3, lane_config(LaneMode::event), lane_config(LaneMode::event));
    many.called.erase(many.called.begin() + 1);
    EXPECT_EQ(test::error_code_of([&] { many.accepted[1].receive_message(soon()); }),
              Errc::peer_lost);
    EXPECT_TRUE(many.accepted[1].peer_closed());
    many.accepted.erase(many.accepted.begin() + 1);
    EXPECT_EQ(many.serving.lane().connections(), 2u);
    std::thread other([&] { answer(many.called[1], 10); });
    for (std::uint64_t i = 0; i < 10; ++i) {
        many.accepted[1].send_message(1, bytes_of(i), {}, soon());
        EXPECT_EQ(number_of(many.accepted[1].receive_message(soon())), i);
    }
    other.join();
}

}  // namespace
}  // namespace verbatim

// Completion events and shared receives through unmodified libibverbs. Nobody polls while it waits
// for an event: the engine's own thread does the work.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

struct Events : testing::Test {
    Events() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    static bool readable(const Side& side, int timeout_ms) {
        pollfd entry{side.channel->fd, POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    }
    static void take_event(Side& side) {
        ASSERT_TRUE(readable(side, 10000)) << "no event";
        ibv_cq* queue = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(side.channel.get(), &queue, &context), 0);
        EXPECT_EQ(queue, side.completions.get());
        EXPECT_EQ(context, &side);
        ibv_ack_cq_events(queue, 1);
    }
    static void arm(Side& side, bool solicited = false) {
        ASSERT_EQ(ibv_req_notify_cq(side.completions.get(), solicited ? 1 : 0), 0);
    }

    Context context = open_device();
    Side one{context.get(), {.events = true}}, other{context.get(), {.events = true}};
};

TEST_F(Events, each_arming_brings_one) {
    for (int i = 0; i < 20; ++i) {
        arm(other), arm(one);
        other.receive(0, 64);
        one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        take_event(other);
        take_event(one);
        EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_FALSE(readable(one, 0));
    EXPECT_FALSE(readable(other, 0));
}

TEST_F(Events, a_completion_that_is_there_already_brings_one_when_the_queue_is_armed) {
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_FALSE(readable(one, 20));
    arm(one);
    take_event(one);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
}

TEST_F(Events, only_solicited_completions_wake_who_asked_for_those) {
    other.receive(0, 64), other.receive(64, 64);
    arm(other, true);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);  // so it has arrived
    EXPECT_FALSE(readable(other, 20));
    one.request(IBV_WR_SEND, 0, 64).flags(IBV_SEND_SOLICITED).post(one.pair.get());
    take_event(other);
}

TEST_F(Events, an_event_that_nobody_reads_does_not_hold_up_destruction) {
    arm(other);
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_TRUE(readable(other, 10000));
    other.pair.reset();
    other.completions.reset();
    EXPECT_FALSE(readable(other, 0));
}

// perftest's latency tools poll one completion for each event and arm the queue in between. They
// hang, or take a completion for another one's, if an event comes for what they then poll.
TEST_F(Events, who_arms_before_polling_gets_no_second_event_for_a_completion) {
    using Clock = std::chrono::steady_clock;
    arm(other);
    int in_time = 0;
    for (int i = 0; i < 10; ++i) {
        other.receive(0, 64);
        one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        take_event(other);
        const auto before = Clock::now();
        arm(other);
        // It loses its core here.
        while (Clock::now() < before + std::chrono::milliseconds(50)) continue;
        ibv_wc completion{};
        ASSERT_EQ(ibv_poll_cq(other.completions.get(), 1, &completion), 1);
        // Another event is for who does not poll at all.
        const bool second = readable(other, 0);
        if (Clock::now() < before + std::chrono::milliseconds(90)) {
            EXPECT_FALSE(second);
            ++in_time;
        }
        if (second) take_event(other), arm(other);
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    if (in_time == 0) GTEST_SKIP() << "this thread never had its core in time";
}

TEST_F(Events, of_several_completions_there_is_one_for_each_that_is_polled) {
    constexpr int kMessages = 16;
    for (int i = 0; i < kMessages; ++i) other.receive(0, 64);
    arm(other);
    for (int i = 0; i < kMessages; ++i) {
        one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    for (int i = 0; i < kMessages; ++i) {
        take_event(other);
        arm(other);
        ibv_wc completion{};
        ASSERT_EQ(ibv_poll_cq(other.completions.get(), 1, &completion), 1) << i;
    }
    EXPECT_FALSE(readable(other, 0));
}

TEST_F(Events, who_is_told_and_does_not_poll_is_told_again) {
    other.receive(0, 64);
    arm(other);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    take_event(other);
    arm(other);
    take_event(other);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
}

TEST_F(Events, who_does_something_else_after_arming_gets_its_event) {
    other.receive(0, 64);
    arm(other);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    bool came = false;
    while (!came && std::chrono::steady_clock::now() < end) came = readable(other, 0);
    EXPECT_TRUE(came);
}

// Of `other`, whose queue's events wait for three completions or four milliseconds.
struct Moderated : Events {
    using Clock = std::chrono::steady_clock;
    static constexpr auto kPeriod = std::chrono::microseconds(4095);
    static int moderate(Side& side, std::uint16_t count, std::uint16_t period) {
        ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {count, period}};
        return ibv_modify_cq(side.completions.get(), &attributes);
    }
    // How long after the first of `messages` the event came.
    Clock::duration time_of(int messages) {
        arm(other);
        const auto start = Clock::now();
        for (int i = 0; i < messages; ++i) {
            other.receive(0, 64);
            one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
        }
        take_event(other);
        const auto time = Clock::now() - start;
        for (int i = 0; i < messages; ++i) {
            EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
            EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
        }
        EXPECT_FALSE(readable(other, 0)) << "one event for each arming";
        return time;
    }
};

TEST_F(Moderated, an_event_of_few_completions_waits_for_its_time) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    for (int round = 0; round < 20; ++round) EXPECT_GE(time_of(1 + round % 2), kPeriod);
}

TEST_F(Moderated, an_event_of_enough_completions_does_not) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    // On a busy machine some may come late for other reasons.
    auto shortest = Clock::duration::max();
    for (int round = 0; round < 100 && shortest >= kPeriod; ++round)
        shortest = std::min(shortest, time_of(3));
    EXPECT_LT(shortest, kPeriod);
}

TEST_F(Moderated, can_be_switched_off) {
    ASSERT_EQ(moderate(other, 3, 4095), 0);
    EXPECT_GE(time_of(1), kPeriod);
    ASSERT_EQ(moderate(other, 0, 0), 0);
    auto shortest = Clock::duration::max();
    for (int round = 0; round < 100 && shortest >= kPeriod; ++round)
        shortest = std::min(shortest, time_of(1));
    EXPECT_LT(shortest, kPeriod);
}

TEST_F(Moderated, what_the_device_cannot_do_is_refused) {
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    EXPECT_EQ(device.cq_mod_caps.max_cq_count, 65535);
    EXPECT_EQ(device.cq_mod_caps.max_cq_period, 4095);
    EXPECT_EQ(moderate(other, 3, 4096), EINVAL);
    ibv_modify_cq_attr attributes{0, {1, 1}};
    EXPECT_EQ(ibv_modify_cq(other.completions.get(), &attributes), EINVAL);
}

TEST(SharedReceives, serve_several_queue_pairs) {
    const Context context = open_device();
    Side first(context.get()), second(context.get());
    Side server(context.get(), {.shared_receives = true, .completions = 256});
    Pair other_pair = std::move(server.pair);
    server.make_pair();
    connect(first.pair.get(), server.pair->qp_num);
    connect(server.pair.get(), first.pair->qp_num);
    connect(second.pair.get(), other_pair->qp_num);
    connect(other_pair.get(), second.pair->qp_num);
    for (std::uint64_t round = 0; round < 100; ++round) {
        server.receive(round % 30 * 64, 64, round);
        Side& sender = round % 2 == 0 ? first : second;
        sender.fill(0, 64, static_cast<int>(round));
        sender.request(IBV_WR_SEND, 0, 64).post(sender.pair.get());
        const ibv_wc arrived = server.poll();
        ASSERT_EQ(arrived.status, IBV_WC_SUCCESS);
        EXPECT_EQ(arrived.wr_id, round);
        EXPECT_EQ(arrived.qp_num, round % 2 == 0 ? server.pair->qp_num : other_pair->qp_num);
        EXPECT_EQ(std::memcmp(sender.memory.data(), server.memory.data() + round % 30 * 64, 64), 0);
        EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    }
}

}  // namespace
}  // namespace verbatim::interop

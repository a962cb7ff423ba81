// Programs that neither post nor poll for a while: their device takes messages and goes on with
// requests all the same, costs nothing while a peer is stopped, and forgets queue pairs that go.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include <thread>

#include "sanitized.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using namespace std::chrono_literals;
using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFlag = 64;
constexpr auto kSoon = verbatim::test::kSanitized ? 10s : 1s;

EndOptions absent(bool channel = false) {
    EndOptions options;
    options.device.absent_poller = true;
    options.channel = channel;
    return options;
}

// A message; a write that is too long to cross the ring, and so waits until the message is taken;
// and a flag.
void post_long_write_behind_message(End& end) {
    const Element element = end.element(0, 65536), message = end.element(0, 8);
    ASSERT_EQ(end.post_send(std::span(&message, 1)), Errc::ok);
    WorkRequest write = end.request(Opcode::write, 65536);
    write.elements = std::span(&element, 1);
    ASSERT_EQ(end.send->post(write), Errc::ok);
    const std::uint64_t flag = 1;
    ASSERT_EQ(end.post_write(std::as_bytes(std::span(&flag, 1)), kFlag), Errc::ok);
}

// A message, and a write that is short enough to cross the ring behind it.
void post_flag_behind_message(End& end) {
    const std::uint64_t flag = 1;
    const Element message = end.element(0, 8);
    ASSERT_EQ(end.post_send(std::span(&message, 1)), Errc::ok);
    ASSERT_EQ(end.post_write(std::as_bytes(std::span(&flag, 1)), kFlag), Errc::ok);
}

// Without a call of the library.
bool is_written(const End& end, std::uint64_t flag, Clock::duration patience = kPatience) {
    const auto deadline = Clock::now() + patience;
    while (watch(end, kFlag) != flag) {
        if (Clock::now() > deadline) return false;
        std::this_thread::sleep_for(100us);
    }
    return true;
}

std::chrono::nanoseconds process_time() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(Absent, posted_request_is_executed_though_its_program_computes) {
    Pair pair(absent());
    for (std::uint64_t round = 1; round <= 50; ++round) {
        ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
        post_long_write_behind_message(pair.a);
        ASSERT_TRUE(
            poll_until({&pair.b}, {&pair.seen_b}, [&] { return pair.seen_b.size() >= round; }));
        const auto since = Clock::now();
        ASSERT_TRUE(is_written(pair.b, 1));
        EXPECT_LT(Clock::now() - since, kSoon);
        ASSERT_TRUE(pair.poll_for(3 * round, round));
        *reinterpret_cast<std::uint64_t*>(pair.b.at(kFlag)) = 0;
    }
    for (const Completion& completion : pair.seen_a) EXPECT_EQ(completion.status, Errc::ok);
}

TEST(Absent, message_is_taken_though_its_receiver_computes) {
    Pair pair(absent());
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    const auto since = Clock::now();
    post_long_write_behind_message(pair.a);
    ASSERT_TRUE(poll_until({&pair.a}, {&pair.seen_a}, [&] { return pair.seen_a.size() == 3; }));
    EXPECT_LT(Clock::now() - since, kSoon);
    for (const Completion& completion : pair.seen_a) EXPECT_EQ(completion.status, Errc::ok);
    EXPECT_EQ(watch(pair.b, kFlag), 1u);
    EXPECT_EQ(pair.b.poll().size(), 1u);
}

TEST(Absent, everything_goes_on_though_both_programs_compute) {
    Pair pair(absent());
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    const auto since = Clock::now();
    post_long_write_behind_message(pair.a);
    ASSERT_TRUE(is_written(pair.b, 1));
    EXPECT_LT(Clock::now() - since, kSoon);
}

TEST(Absent, write_that_crossed_the_ring_is_executed) {
    Pair pair(absent());
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    post_flag_behind_message(pair.a);
    EXPECT_TRUE(is_written(pair.b, 1));
}

// It sleeps for messages that are solicited, and this one is not.
TEST(Absent, write_that_crossed_the_ring_is_executed_though_its_target_sleeps) {
    Pair pair(absent(), absent(true));
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    ASSERT_EQ(pair.b.completions->arm(mlx5::Notify::solicited), Errc::ok);
    post_flag_behind_message(pair.a);
    EXPECT_TRUE(is_written(pair.b, 1));
}

TEST(Absent, message_alone_is_acknowledged_to_a_sender_that_sleeps) {
    Pair pair(absent(true), absent());
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    const Element message = pair.a.element(0, 8);
    ASSERT_EQ(pair.a.post_send(std::span(&message, 1)), Errc::ok);
    ASSERT_EQ(pair.a.completions->arm(), Errc::ok);
    pollfd entry{pair.a.channel->file(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 20000), 1);
    EXPECT_EQ(pair.a.poll().size(), 1u);
}

TEST(Absent, long_message_crosses_a_short_ring) {
    constexpr std::size_t kInto = 262144;
    EndOptions options = absent();
    options.device.ring_bytes = 4096;
    Pair pair(options);
    ASSERT_EQ(pair.b.post_receive(kInto, 100000), Errc::ok);
    const auto bytes = pattern(100000);
    std::memcpy(pair.a.at(0), bytes.data(), bytes.size());
    const Element message = pair.a.element(0, bytes.size());
    ASSERT_EQ(pair.a.post_send(std::span(&message, 1)), Errc::ok);
    const std::uint64_t flag = 1;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&flag, 1)), kFlag), Errc::ok);
    ASSERT_TRUE(is_written(pair.b, 1));
    EXPECT_EQ(std::memcmp(pair.b.at(kInto), bytes.data(), bytes.size()), 0);
}

TEST(Absent, receive_that_comes_late_is_found) {
    Pair pair(absent());
    post_long_write_behind_message(pair.a);
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(watch(pair.b, kFlag), 0u);
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    EXPECT_TRUE(is_written(pair.b, 1));
}

TEST(Absent, message_that_is_never_received_fails_after_its_retries) {
    EndOptions options = absent(true);
    options.queues.not_ready_retries = 3;
    Pair pair(options);
    post_long_write_behind_message(pair.a);
    ASSERT_EQ(pair.a.completions->arm(), Errc::ok);
    pollfd entry{pair.a.channel->file(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20000), 1);
    ASSERT_TRUE(pair.poll_for(3, 0));
    EXPECT_EQ(pair.seen_a[0].status, Errc::rnr_exceeded);
}

// Whatever the list and its thread are doing just then.
TEST(Absent, queue_pairs_go_and_are_reset_while_they_are_looked_at) {
    for (int i = 0; i < 60; ++i) {
        Pair pair(absent());
        if (i % 3 != 0) {
            ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
        }
        post_long_write_behind_message(pair.a);
        std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
        if (i % 2 != 0) pair.a.queue_pair->reset();
        if (i % 4 == 0) pair.b.queue_pair.reset();
    }
}

TEST(Absent, many_queue_pairs_go_on) {
    constexpr std::size_t kCount = 100;
    EndOptions options = absent();
    options.completions = 1024;
    Pair first(options);
    std::vector<std::unique_ptr<QueuePairHandle>> from, to;
    std::vector<std::unique_ptr<mlx5::SendQueue>> queues;
    std::vector<std::uint64_t> flags(kCount, 1);
    for (std::size_t i = 0; i < kCount; ++i) {
        QueuePairOptions wanted{.send_blocks = 16, .receive_entries = 4};
        wanted.send_completions = wanted.receive_completions = first.a.completion_queue.get();
        from.push_back(first.a.device->create_queue_pair(wanted));
        wanted.send_completions = wanted.receive_completions = first.b.completion_queue.get();
        to.push_back(first.b.device->create_queue_pair(wanted));
        from[i]->connect(to[i]->address(), 5000);
        to[i]->connect(from[i]->address(), 5000);
        queues.push_back(std::make_unique<mlx5::SendQueue>(from[i]->view(),
                                                           first.a.device->invalidation_epoch()));
        mlx5::ReceiveQueue receives(to[i]->view());
        const Element into = first.b.element(0, 8);
        ASSERT_EQ(receives.post(mlx5::ReceiveRequest{0, std::span(&into, 1)}), Errc::ok);
    }
    const Element message = first.a.element(0, 8), body = first.a.element(0, 65536);
    for (std::size_t i = 0; i < kCount; ++i) {
        WorkRequest send = first.a.request(Opcode::send);
        send.elements = std::span(&message, 1);
        ASSERT_EQ(queues[i]->post(send), Errc::ok);
        WorkRequest write = first.a.request(Opcode::write, 65536);
        write.elements = std::span(&body, 1);
        ASSERT_EQ(queues[i]->post(write), Errc::ok);
        write = first.a.request(Opcode::write, kFlag + 8 * (i + 1));
        write.inline_payload = std::as_bytes(std::span(&flags[i], 1));
        ASSERT_EQ(queues[i]->post(write), Errc::ok);
    }
    const auto deadline = Clock::now() + kPatience;
    for (std::size_t i = 0; i < kCount; ++i) {
        while (watch(first.b, kFlag + 8 * (i + 1)) != 1 && Clock::now() < deadline)
            std::this_thread::sleep_for(100us);
        EXPECT_EQ(watch(first.b, kFlag + 8 * (i + 1)), 1u) << i;
    }
}

TEST(Absent, forked_child_leaves_the_list_alone) {
    Pair pair(absent());
    post_long_write_behind_message(pair.a);
    Child child([&](Wire&) {
        std::size_t flushed = 0;
        for (int i = 0; i < 100; ++i) flushed += pair.a.poll().size();
        static_cast<void>(pair.a.post_write(pattern(8), 0));
        pair.a.queue_pair.reset();
        return flushed == 3 ? 0 : 1;
    });
    EXPECT_EQ(child.reap(), 0);
    ASSERT_EQ(pair.b.post_receive(0, 8), Errc::ok);
    EXPECT_TRUE(is_written(pair.b, 1));
}

int compute_until_written(Wire& wire) {
    End end(absent());
    if (!meet(end, wire) || end.post_receive(0, 8) != Errc::ok || !wire.signal()) return 1;
    return is_written(end, 1) ? 0 : 2;
}

TEST(Absent, peer_process_computes) {
    Child child(compute_until_written);
    End end(absent());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    post_long_write_behind_message(end);
    EXPECT_EQ(child.reap(), 0);
}

TEST(Absent, stopped_peer_costs_next_to_nothing) {
    Child child(compute_until_written);
    End end(absent());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    child.kill(SIGSTOP);
    post_long_write_behind_message(end);
    const auto before = process_time();
    std::this_thread::sleep_for(2s);
    if (!verbatim::test::kSanitized) {
        EXPECT_LT(process_time() - before, 40ms);
    }
    // The way to the peer has room for questions still: else the link would be lost.
    EXPECT_FALSE(end.queue_pair->peer_lost());
    child.kill(SIGCONT);
    EXPECT_EQ(child.reap(), 0);
}

TEST(Absent, end_of_the_peer_is_told_to_a_program_that_sleeps) {
    Child child([](Wire& wire) {
        End end(absent());
        return meet(end, wire) && wire.signal() && wire.wait() ? 0 : 1;
    });
    End end(absent(true));
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    post_long_write_behind_message(end);
    ASSERT_EQ(end.completions->arm(), Errc::ok);
    std::this_thread::sleep_for(20ms);
    child.kill(SIGKILL);
    pollfd entry{end.channel->file(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20000), 1);
    std::vector<Completion> seen;
    ASSERT_TRUE(poll_until({&end}, {&seen}, [&] { return seen.size() == 3; }));
    EXPECT_EQ(seen[0].status, Errc::retry_exceeded);
}

}  // namespace
}  // namespace verbatim::softnic::test

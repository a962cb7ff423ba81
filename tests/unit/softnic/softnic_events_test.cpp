// Completion queues that are armed: who is woken by what, and that nobody sleeps through a
// completion, within a process and between two.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include <verbatim/mlx5/completion_wait.hpp>

#include "completion_queue.hpp"
#include "sanitized.hpp"
#include "softnic_meeting.hpp"
#include "softqueue/queue_memory.hpp"
#include "stall.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Notify;
using mlx5::Opcode;
using mlx5::WorkRequest;

EndOptions waking() {
    EndOptions options;
    options.channel = true;
    return options;
}

bool readable(const End& end, int timeout_ms = 0) {
    pollfd entry{end.channel->file(), POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
}
constexpr int kPatienceMs = 20000;

// The event that is to come, taken.
bool take(End& end) {
    if (!readable(end, kPatienceMs) || end.channel->take_event() != end.completion_queue.get())
        return false;
    end.completions->count_event();
    return true;
}

bool complete_one(End& end) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (std::chrono::steady_clock::now() < deadline)
        if (const std::size_t found = end.poll().size(); found != 0) return found == 1;
    return false;
}

Errc send(End& end, bool solicited, std::size_t bytes = 100) {
    const Element from = end.element(0, bytes);
    WorkRequest message = end.request(Opcode::send);
    message.elements = std::span(&from, 1);
    message.solicited = solicited;
    return end.send->post(message);
}

class Events : public testing::Test {
  protected:
    Pair pair{waking()};
    End& a = pair.a;
    End& b = pair.b;
};

TEST_F(Events, completion_raises_one_event_for_each_arming) {
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(a.completions->arm(), Errc::ok);
        EXPECT_FALSE(readable(a));
        ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
        ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
        EXPECT_TRUE(take(a));
        EXPECT_FALSE(readable(a)) << "the second completion";
        EXPECT_EQ(a.channel->take_event(), nullptr);
        EXPECT_EQ(a.poll().size(), 2u);
    }
    EXPECT_FALSE(readable(b)) << "it was never armed";
}

TEST_F(Events, completion_that_was_not_polled_before_the_arming_raises_it_too) {
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_FALSE(readable(a));
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    EXPECT_TRUE(take(a));
    EXPECT_EQ(a.poll().size(), 1u);
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    EXPECT_FALSE(readable(a)) << "it was polled";
}

TEST_F(Events, arming_with_the_sequence_of_an_event_that_came_is_ignored) {
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    ASSERT_TRUE(readable(a));
    ASSERT_NE(a.channel->take_event(), nullptr);  // and not counted
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    EXPECT_FALSE(readable(a));
    a.completions->count_event();
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    EXPECT_TRUE(take(a));
}

// The driver counts events by two bits.
TEST_F(Events, events_that_nobody_takes_do_not_make_an_arming_look_like_an_older_one) {
    for (int i = 0; i < 12; ++i) {
        for (int untaken = 0; untaken < 4; ++untaken) {
            ASSERT_EQ(a.completions->arm(), Errc::ok);
            ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
            ASSERT_TRUE(complete_one(a));
        }
        while (a.channel->take_event() != nullptr) a.completions->count_event();
        ASSERT_EQ(a.completions->arm(), Errc::ok);
        // Over tcp another thread may raise the last event only now.
        EXPECT_TRUE(test_device().port == PortKind::tcp || !readable(a));
        ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
        EXPECT_TRUE(take(a));
        ASSERT_TRUE(complete_one(a));
        while (readable(a)) ASSERT_TRUE(take(a));
    }
}

TEST_F(Events, message_wakes_its_receiver_and_the_receiver_its_sender) {
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
        ASSERT_EQ(b.completions->arm(), Errc::ok);
        EXPECT_TRUE(b.poll().empty());
        ASSERT_EQ(send(a, false), Errc::ok);
        ASSERT_EQ(a.completions->arm(), Errc::ok);
        EXPECT_TRUE(a.poll().empty()) << "it is not delivered yet";
        ASSERT_TRUE(take(b));
        ASSERT_EQ(b.poll().size(), 1u);
        ASSERT_TRUE(take(a)) << "acknowledged";
        ASSERT_EQ(a.poll().size(), 1u);
    }
}

TEST_F(Events, message_that_came_before_the_arming_raises_it) {
    ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    ASSERT_EQ(send(a, false), Errc::ok);
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    EXPECT_TRUE(readable(b));
}

TEST_F(Events, unsolicited_messages_do_not_wake_who_waits_for_solicited_ones) {
    for (int i = 0; i < 6; ++i) ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    ASSERT_EQ(send(a, false), Errc::ok);
    ASSERT_EQ(b.completions->arm(Notify::solicited), Errc::ok);
    EXPECT_FALSE(readable(b)) << "one that came before";
    ASSERT_EQ(send(a, false), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    WorkRequest immediate = a.request(Opcode::write_immediate);
    ASSERT_EQ(a.send->post(immediate), Errc::ok);
    std::vector<Completion> seen;
    ASSERT_TRUE(poll_until({&b}, {&seen}, [&] { return seen.size() == 3; }));
    EXPECT_TRUE(b.poll().empty());
    EXPECT_FALSE(readable(b, 20)) << "some that came afterwards";
    immediate.solicited = true;
    ASSERT_EQ(a.send->post(immediate), Errc::ok);
    EXPECT_TRUE(take(b));
    // One that came before.
    ASSERT_EQ(b.poll().size(), 1u);
    ASSERT_EQ(send(a, true), Errc::ok);
    ASSERT_EQ(b.completions->arm(Notify::solicited), Errc::ok);
    EXPECT_TRUE(take(b));
}

TEST_F(Events, errors_wake_who_waits_for_solicited_ones) {
    ASSERT_EQ(a.completions->arm(Notify::solicited), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_FALSE(readable(a));
    a.peer.key ^= 1;
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_TRUE(take(a));
    EXPECT_EQ(a.poll().size(), 2u);
}

// Two queues, one channel.
TEST_F(Events, channel_says_which_queue) {
    auto other = a.device->create_completion_queue(64, a.channel.get());
    QueuePairOptions options{.send_blocks = 16, .receive_entries = 4};
    options.send_completions = options.receive_completions = other.get();
    auto second = a.device->create_queue_pair(options);
    options.send_completions = options.receive_completions = b.completion_queue.get();
    const auto peer = b.device->create_queue_pair(options);
    second->connect(peer->address(), 5000);
    peer->connect(second->address(), 5000);
    mlx5::SendQueue queue(second->view());
    mlx5::CompletionQueue completions(other->view());
    completions.attach(&queue, nullptr);
    ASSERT_EQ(completions.arm(), Errc::ok);
    ASSERT_EQ(a.completions->arm(), Errc::ok);
    WorkRequest nop;
    ASSERT_EQ(queue.post(nop), Errc::ok);
    ASSERT_TRUE(readable(a));
    EXPECT_EQ(a.channel->take_event(), other.get());
    EXPECT_EQ(a.channel->take_event(), nullptr);
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(a.channel->take_event(), a.completion_queue.get());
    // Of a queue that is gone nobody hears.
    completions.count_event();
    ASSERT_EQ(completions.arm(), Errc::ok);
    second.reset();
    other.reset();
    EXPECT_EQ(a.channel->take_event(), nullptr);
    EXPECT_FALSE(readable(a));
}

TEST_F(Events, queue_without_a_channel_is_not_armed) {
    Pair plain;
    EXPECT_EQ(plain.a.completions->arm(), Errc::unsupported);
}

TEST_F(Events, register_that_disagrees_with_the_record_arms_nothing) {
    const mlx5::CompletionQueueView& view = a.completion_queue->view();
    view.doorbell_record[mlx5::kRecordArm] = mlx5::be32(0).raw();
    view.arm_hook.call(view.arm_hook.context);
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_FALSE(readable(a));
}

TEST_F(Events, end_of_the_peer_wakes_both_directions) {
    enum class How { fail, destroy, reset };
    for (const How how : {How::fail, How::destroy, How::reset}) {
        Pair fresh(waking());
        ASSERT_EQ(fresh.b.post_receive(0, 100), Errc::ok);
        ASSERT_EQ(fresh.b.completions->arm(), Errc::ok);
        EXPECT_TRUE(fresh.b.poll().empty());
        if (how == How::fail) fresh.a.queue_pair->fail();
        if (how == How::reset) fresh.a.queue_pair->reset();
        if (how == How::destroy) fresh.a.queue_pair.reset();
        ASSERT_TRUE(readable(fresh.b, kPatienceMs)) << static_cast<int>(how);
    }
}

// Sleeps wherever there is nothing to do; every message comes, in order.
void exchange_asleep(End& end, std::size_t count, std::size_t bytes, std::atomic<int>& good) {
    std::size_t receives = 0, sends = 0, finished = 0;
    const Element from = end.element(0, bytes);
    std::vector<Completion> found(8);
    while (finished < 2 * count) {
        while (receives < count && receives < finished + 8 &&
               end.post_receive(100000, 200000, receives) == Errc::ok)
            ++receives;
        if (sends < count && sends <= finished / 2 &&
            end.post_send(std::span(&from, 1), sends) == Errc::ok)
            ++sends;
        const std::size_t got = mlx5::wait_and_poll(*end.completions, *end.channel, found,
                                                    std::chrono::milliseconds(kPatienceMs));
        if (got == 0) return;
        for (const Completion& completion : std::span(found).first(got))
            good += completion.status == Errc::ok;
        finished += got;
    }
}

class Sleepers : public testing::TestWithParam<std::size_t> {};  // ring bytes

TEST_P(Sleepers, threads_that_sleep_at_both_ends_miss_nothing) {
    EndOptions options = waking();
    options.device.ring_bytes = GetParam();
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{100000}}) {
        Pair pair(options);
        const std::size_t count = bytes == 64 ? 1000 : 30;
        std::atomic<int> good{0};
        std::thread other([&] { exchange_asleep(pair.b, count, bytes, good); });
        exchange_asleep(pair.a, count, bytes, good);
        other.join();
        EXPECT_EQ(good.load(), static_cast<int>(4 * count)) << bytes;
    }
}
INSTANTIATE_TEST_SUITE_P(Rings, Sleepers, testing::Values(std::size_t{64} << 10, 1024));

// One side polls, the other sleeps: the waker is always at full speed.
TEST(Sleeper, misses_nothing_of_a_peer_that_never_sleeps) {
    EndOptions awake;
    Pair pair(waking(), awake);
    constexpr std::size_t kMessages = 3000;
    std::thread poster([&] {
        std::size_t sent = 0, done = 0;
        while (done < kMessages) {
            while (sent < kMessages && sent < done + 8 && send(pair.b, false, 8) == Errc::ok)
                ++sent;
            done += pair.b.poll().size();
            std::this_thread::yield();
        }
    });
    std::size_t received = 0, posted = 0;
    std::vector<Completion> found(8);
    while (received < kMessages) {
        while (posted < received + 16 && pair.a.post_receive(0, 100) == Errc::ok) ++posted;
        const std::size_t got = mlx5::wait_and_poll(*pair.a.completions, *pair.a.channel, found,
                                                    std::chrono::milliseconds(kPatienceMs));
        ASSERT_NE(got, 0u) << received;
        received += got;
    }
    poster.join();
}

// Peers wake once for each sleep they hear of, and may do so before the sleeper has armed its ring:
// what they did before that, they take for seen.
TEST(Sleeper, woken_while_it_lies_down_gets_up) {
    constexpr std::uint32_t kSleeps = 20000;
    Pair pair(waking());
    auto& queue = dynamic_cast<CompletionQueue&>(*pair.a.completion_queue);
    std::atomic<bool> over{false};
    std::thread peer([&, heard = queue.sleep_word()]() mutable {
        while (!over.load()) {
            const std::uint32_t word = queue.sleep_word();
            if (word != heard) queue.wake();
            heard = word;
        }
    });
    std::uint32_t sleeps = 0;
    for (; sleeps < kSleeps; ++sleeps) {
        ASSERT_EQ(pair.a.completions->arm(), Errc::ok);
        if (!take(pair.a)) break;
    }
    over = true;
    peer.join();
    EXPECT_EQ(sleeps, kSleeps);
}

TEST(Sleeper, time_over_is_no_completion) {
    Pair pair(waking());
    std::vector<Completion> found(8);
    EXPECT_EQ(mlx5::wait_and_poll(*pair.a.completions, *pair.a.channel, found,
                                  std::chrono::milliseconds(1)),
              0u);
}

// Several writers into an armed queue: an event for each arming, whatever they do at that moment.
TEST(Sleeper, armed_ring_loses_no_wake_up_among_several_writers) {
    constexpr int kWriters = 2;
    constexpr std::uint32_t kEach = 5000;
    CompletionQueueMemory memory(64, 64, 1);
    CompletionRing ring(memory.view());
    std::atomic<std::uint64_t> events{0};
    ring.set_signal({[](void* count) noexcept {
                         static_cast<std::atomic<std::uint64_t>*>(count)->fetch_add(1);
                     },
                     &events});
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kWriters; ++writer)
        writers.emplace_back([&] {
            for (std::uint32_t i = 0; i < kEach;) {
                mlx5::Cqe cqe;
                cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester, false);
                if (ring.push(cqe))
                    ++i;
                else
                    std::this_thread::yield();
            }
        });
    std::uint32_t consumed = 0, armed = 0;
    verbatim::test::Stall stall;
    const auto poll = [&] {
        const std::uint32_t before = consumed;
        for (;;) {
            auto* const entry =
                reinterpret_cast<mlx5::Cqe*>(memory.view().buffer) + (consumed & 63);
            const std::uint8_t own = __atomic_load_n(&entry->op_own, __ATOMIC_ACQUIRE);
            if (((own & 1) != 0) != mlx5::owner_phase(consumed, 64) || own >> 4 == 15) break;
            ++consumed;
        }
        __atomic_store_n(memory.view().doorbell_record, mlx5::be32(consumed & 0xffffff).raw(),
                         __ATOMIC_RELEASE);
        return consumed != before;
    };
    while (consumed < kWriters * kEach && !stall.is_over(consumed)) {
        if (poll()) continue;
        const std::uint64_t before = events.load();
        ring.arm((++armed & 3) << 28 | (consumed & 0xffffff));
        if (poll()) continue;
        while (events.load() == before && !stall.is_over(consumed)) std::this_thread::yield();
    }
    EXPECT_EQ(consumed, kWriters * kEach);
    for (std::thread& writer : writers) writer.join();
}

// The counter goes back where its bits end.
TEST(Sleeper, ring_goes_on_where_its_counter_ends) {
    // Twice; once where each step costs a microsecond.
    constexpr std::uint32_t kBefore = verbatim::test::kSanitized ? 0 : 1u << 24,
                            kSteps = verbatim::test::kSanitized ? 1u << 16 : 1u << 25;
    constexpr std::uint32_t kStart = (1u << 30) - kBefore - 1000;
    CompletionQueueMemory memory(64, 64, 1);
    *memory.view().doorbell_record = mlx5::be32(kStart & 0xffffff).raw();
    CompletionRing ring(memory.view(), kStart);
    std::uint32_t events = 0, armed = 0;
    ring.set_signal({[](void* count) noexcept { ++*static_cast<std::uint32_t*>(count); }, &events});
    mlx5::Cqe cqe;
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester, false);
    for (std::uint32_t i = kStart; i < kStart + kSteps; ++i) {
        if (i % 0x101 == 0) {
            ring.arm((++armed & 3) << 28 | (i & 0xffffff));
            ASSERT_EQ(events, armed - 1);
        }
        ASSERT_TRUE(ring.push(cqe)) << i;
        ASSERT_EQ(events, armed);
        const auto* const entry = memory.view().buffer + (i & 63) * 64;
        ASSERT_EQ(static_cast<std::uint8_t>(entry[63]) & 1, mlx5::owner_phase(i, 64) ? 1 : 0) << i;
        *memory.view().doorbell_record = mlx5::be32((i + 1) & 0xffffff).raw();
    }
}

TEST(SleepingProcesses, both_sleep_and_miss_nothing) {
    constexpr std::size_t kCount = 300;
    Child child([](Wire& wire) {
        End end(waking());
        if (!meet(end, wire)) return 1;
        std::atomic<int> good{0};
        exchange_asleep(end, kCount, 5000, good);
        return good.load() == 2 * kCount && wire.signal() && wire.wait() ? 0 : 2;
    });
    End end(waking());
    ASSERT_TRUE(meet(end, child.wire()));
    std::atomic<int> good{0};
    exchange_asleep(end, kCount, 5000, good);
    EXPECT_EQ(good.load(), static_cast<int>(2 * kCount));
    ASSERT_TRUE(child.wire().wait());
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(SleepingProcesses, death_of_the_peer_wakes) {
    Child child([](Wire& wire) {
        End end(waking());
        return meet(end, wire) && wire.wait() ? 0 : 1;
    });
    End end(waking());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_EQ(end.post_receive(0, 100), Errc::ok);
    ASSERT_EQ(send(end, false), Errc::ok);
    ASSERT_EQ(end.completions->arm(), Errc::ok);
    ASSERT_TRUE(end.poll().empty());
    child.kill(SIGKILL);
    ASSERT_TRUE(readable(end, kPatienceMs));
    std::vector<Completion> seen;
    EXPECT_TRUE(poll_until({&end}, {&seen}, [&] { return seen.size() >= 2; }));
    for (const Completion& completion : seen) EXPECT_NE(completion.status, Errc::ok);
}

// -- Another buffer --

TEST(Resizing, keeps_what_is_unpolled_and_refuses_to_drop_it) {
    EndOptions options;
    options.completions = 16;
    Pair pair(options);
    End& a = pair.a;
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(a.post_write(pattern(8), 0, i), Errc::ok);
    EXPECT_THROW(a.completions->resize(*a.completion_queue, 8), Error);
    EXPECT_EQ(a.completions->entries(), 16u);
    a.completions->resize(*a.completion_queue, 64);
    EXPECT_EQ(a.completions->entries(), 64u);
    for (std::uint64_t i = 10; i < 50; ++i) ASSERT_EQ(a.post_write(pattern(8), 0, i), Errc::ok);
    std::uint64_t next = 0;
    for (int i = 0; i < 2; ++i)
        for (const Completion& completion : a.poll()) EXPECT_EQ(completion.id, next++);
    EXPECT_EQ(next, 50u);
    a.completions->resize(*a.completion_queue, 4);
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(a.post_write(pattern(8), 0, next), Errc::ok);
        EXPECT_EQ(a.poll().at(0).id, next++);
    }
    EXPECT_EQ(a.completions->strays(), 0u);
}

TEST(Resizing, armed_queue_stays_armed) {
    Pair pair(waking());
    ASSERT_EQ(pair.a.completions->arm(), Errc::ok);
    pair.a.completions->resize(*pair.a.completion_queue, 32);
    ASSERT_EQ(pair.a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_TRUE(take(pair.a));
    EXPECT_EQ(pair.a.poll().size(), 1u);
}

// Receives complete while another thread posts, in and out of ever different buffers.
TEST(Resizing, loses_and_repeats_nothing_under_traffic) {
    EndOptions options;
    options.completions = 64;
    Pair pair(options);
    constexpr std::uint64_t kMessages = 2000;
    // Stops when this test does, done or not.
    const std::jthread poster([&](const std::stop_token& stop) {
        std::size_t sent = 0, done = 0;
        while (done < kMessages && !stop.stop_requested()) {
            while (sent < kMessages && sent < done + 16 && send(pair.b, false, 8) == Errc::ok)
                ++sent;
            done += pair.b.poll().size();
            std::this_thread::yield();
        }
    });
    std::uint64_t received = 0, posted = 0;
    std::uint32_t entries = 64;
    verbatim::test::Stall stall;
    while (received < kMessages && !stall.is_over(received)) {
        while (posted < received + 16 && pair.a.post_receive(0, 100, posted) == Errc::ok) ++posted;
        std::vector<Completion> found(1 + received % 3);
        found.resize(pair.a.completions->poll(found));
        for (const Completion& completion : found) {
            ASSERT_EQ(completion.id, received++);
            ASSERT_EQ(completion.status, Errc::ok);
        }
        if (received % 7 == 0)
            pair.a.completions->resize(*pair.a.completion_queue, entries = entries == 64 ? 32 : 64);
        std::this_thread::yield();
    }
    EXPECT_EQ(received, kMessages);
    EXPECT_EQ(pair.a.completions->strays(), 0u);
}

}  // namespace
}  // namespace verbatim::softnic::test

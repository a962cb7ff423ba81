// The rule by which armed completion queues have their events, against programs that arm and poll
// in all orders: none sleeps while a completion is there, and none that polls once for each event
// is led astray.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "objects/completion_notifier.hpp"

namespace verbatim::uverbs {
namespace {

using Verdict = CompletionNotifier::Verdict;
using Clock = CompletionNotifier::Clock;

constexpr std::uint32_t kEntries = 64;

// Numbers below a bound, the same for each seed.
class Draw {
  public:
    explicit Draw(unsigned seed) : random_(seed) {}
    std::uint32_t operator()(std::uint32_t bound) {
        return static_cast<std::uint32_t>(random_() % bound);
    }

  private:
    std::mt19937 random_;
};

// A queue, the device that writes it, and the program that arms and polls it as libmlx5 does.
class Queue {
  public:
    // `start`: completions that came, and were polled, before.
    explicit Queue(std::uint32_t start = 0) : ring((initialize(start), view()), start) {
        consumed = start & mlx5::kConsumerIndexMask;
    }

    // The device.
    void complete(bool solicited = false) {
        mlx5::Cqe cqe;
        cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::send, false);
        if (solicited) cqe.op_own |= mlx5::kSolicited;
        ASSERT_TRUE(ring.push(cqe));
        look();
    }
    Verdict look() { return count(notifier.look(ring)); }
    Verdict look_late(Clock::time_point now) { return count(notifier.look_late(ring, now)); }

    // The program.
    bool take_event() {
        std::uint32_t there = events.load();
        if (there == 0) return false;
        events.fetch_sub(1);
        ++events_taken;
        return true;
    }
    void write_arm(bool solicited = false) {
        const std::uint32_t word =
            (events_taken & 3) << 28 | consumed | (solicited ? mlx5::kArmSolicited : 0);
        record(mlx5::kRecordArm).store(mlx5::be32(word).raw(), std::memory_order_release);
    }
    Verdict arm(bool solicited = false) {
        write_arm(solicited);
        return look();
    }
    std::uint32_t poll(std::uint32_t at_most) {
        std::uint32_t found = 0;
        while (found < at_most && ring.first_written(consumed, false)) {
            consumed = (consumed + 1) & mlx5::kConsumerIndexMask;
            ++found;
        }
        record(mlx5::kRecordConsumer).store(mlx5::be32(consumed).raw(), std::memory_order_release);
        if (found != 0) look();
        return found;
    }
    std::uint32_t unpolled() const {
        return (ring.produced() - consumed) & mlx5::kConsumerIndexMask;
    }

  private:
    std::atomic_ref<std::uint32_t> record(std::size_t word) {
        return std::atomic_ref<std::uint32_t>(record_[word]);
    }
    mlx5::CompletionQueueView view() {
        mlx5::CompletionQueueView view;
        view.buffer = memory_.data();
        view.entries = kEntries;
        view.entry_bytes = sizeof(mlx5::Cqe);
        view.doorbell_record = record_;
        return view;
    }
    void initialize(std::uint32_t start) {
        softnic::CompletionRing::initialize(view());
        record_[mlx5::kRecordConsumer] = mlx5::be32(start & mlx5::kConsumerIndexMask).raw();
        record_[mlx5::kRecordArm] = CompletionNotifier::kNeverArmed;
        // The phase that the pass before left.
        for (std::uint32_t i = 0; i < kEntries; ++i) {
            const std::uint32_t before = start - kEntries + i;
            auto* const last = reinterpret_cast<std::uint8_t*>(memory_.data()) +
                               (before % kEntries + 1) * sizeof(mlx5::Cqe) - 1;
            if (start != 0)
                *last = static_cast<std::uint8_t>((*last & ~mlx5::kOwnerMask) |
                                                  (mlx5::owner_phase(before, kEntries) ? 1 : 0));
        }
    }
    Verdict count(const CompletionNotifier::Look& look) {
        if (look.verdict == Verdict::raise) arming = look.arming, events.fetch_add(1);
        return look.verdict;
    }

    std::vector<std::byte> memory_ = std::vector<std::byte>(kEntries * sizeof(mlx5::Cqe));
    alignas(8) std::uint32_t record_[2] = {};

  public:
    softnic::CompletionRing ring;
    CompletionNotifier notifier;
    std::atomic<std::uint32_t> events{0};  // raised and not taken
    std::atomic<std::uint32_t> arming{0};
    std::uint32_t events_taken = 0, consumed = 0;
};

TEST(CompletionNotifier, raises_one_event_for_the_first_completion_behind_an_arming) {
    Queue queue;
    queue.complete();
    EXPECT_EQ(queue.events, 0U) << "not armed";
    EXPECT_EQ(queue.poll(1), 1U);
    EXPECT_EQ(queue.arm(), Verdict::rest);
    queue.complete(), queue.complete();
    EXPECT_EQ(queue.events, 1U);
}

TEST(CompletionNotifier, raises_it_at_once_when_a_completion_is_there_that_no_event_announced) {
    Queue queue;
    queue.complete();
    EXPECT_EQ(queue.arm(), Verdict::raise);
    queue.complete();
    EXPECT_TRUE(queue.take_event());
    EXPECT_EQ(queue.arm(), Verdict::expect) << "the first one is still to be polled";
    EXPECT_EQ(queue.poll(1), 1U);
    EXPECT_EQ(queue.events, 1U) << "the second one";
}

// ibv_rc_pingpong with timestamps: two polled for each event, and one without any is an error.
TEST(CompletionNotifier, raises_none_for_what_is_polled_with_what_was_announced) {
    Queue queue;
    queue.arm();
    queue.complete();
    EXPECT_TRUE(queue.take_event());
    queue.arm();
    queue.complete();
    EXPECT_EQ(queue.poll(2), 2U);
    EXPECT_EQ(queue.events, 0U);
    EXPECT_EQ(queue.look_late(queue.notifier.due()), Verdict::rest);
    queue.complete();
    EXPECT_EQ(queue.events, 1U);
}

// perftest: one completion polled for each event, the queue armed in between.
TEST(CompletionNotifier, gives_as_many_events_as_completions_to_who_polls_one_for_each) {
    for (const std::uint32_t start : {0U, mlx5::kConsumerIndexMask - 100}) {
        for (unsigned seed = 0; seed < 50; ++seed) {
            Queue queue(start);
            Draw draw(seed);
            const unsigned pace = 1 + seed % 4;  // how many completions may come in between
            std::uint32_t left = 1000;
            const auto device = [&] {
                for (std::uint32_t i = draw(pace + 1); i != 0 && left != 0; --i)
                    if (queue.unpolled() < kEntries) queue.complete(), --left;
            };
            queue.arm();
            for (std::uint32_t polled = 0; polled < 1000; ++polled) {
                for (int patience = 1000; queue.events == 0 && patience != 0; --patience) device();
                ASSERT_TRUE(queue.take_event()) << "sleeps for ever, seed " << seed;
                device();
                queue.write_arm();
                device();
                queue.look();
                device();
                ASSERT_EQ(queue.poll(1), 1U) << "an event without a completion, seed " << seed;
                device();
            }
            EXPECT_EQ(queue.events, 0U);
        }
    }
}

TEST(CompletionNotifier, leaves_nobody_asleep_who_polls_as_many_as_he_likes) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        Queue queue;
        Draw draw(seed);
        std::uint32_t left = 2000;
        const auto device = [&] {
            for (std::uint32_t i = draw(8); i != 0 && left != 0; --i)
                if (queue.unpolled() < kEntries) queue.complete(), --left;
        };
        queue.arm();
        while (left != 0 || queue.unpolled() != 0) {
            for (int patience = 1000; queue.events == 0 && patience != 0; --patience) device();
            ASSERT_TRUE(queue.take_event()) << "sleeps for ever, seed " << seed;
            // Now and then it polls by itself, before or after it arms, or arms twice.
            if (draw(4) == 0) queue.poll(1 + draw(20)), device();
            queue.arm();
            device();
            queue.poll(1 + draw(20));
            device();
            if (draw(4) == 0) queue.arm(), device(), queue.poll(1 + draw(20));
        }
    }
}

TEST(CompletionNotifier, waits_before_it_announces_a_completion_again) {
    Queue queue;
    queue.arm();
    queue.complete();
    ASSERT_TRUE(queue.take_event());
    const auto armed = Clock::now();
    EXPECT_EQ(queue.arm(), Verdict::expect);
    EXPECT_EQ(queue.look(), Verdict::rest) << "told already when to come back";
    const auto due = queue.notifier.due();
    EXPECT_GE(due, armed + CompletionNotifier::kPatience);
    EXPECT_EQ(queue.look_late(due - Clock::duration(1)), Verdict::rest);
    EXPECT_EQ(queue.look_late(due), Verdict::raise) << "the program armed and did not poll";
    EXPECT_EQ(queue.notifier.due(), Clock::time_point::max());
}

TEST(CompletionNotifier, forgets_it_if_it_was_polled) {
    Queue queue;
    queue.arm();
    queue.complete();
    ASSERT_TRUE(queue.take_event());
    EXPECT_EQ(queue.arm(), Verdict::expect);
    EXPECT_EQ(queue.poll(1), 1U);
    EXPECT_EQ(queue.look_late(queue.notifier.due()), Verdict::rest);
    EXPECT_EQ(queue.notifier.due(), Clock::time_point::max());
    queue.complete();
    EXPECT_EQ(queue.events, 1U) << "it is armed still";
}

TEST(CompletionNotifier, passes_over_what_is_not_solicited_if_that_was_asked_for) {
    Queue queue;
    EXPECT_EQ(queue.arm(true), Verdict::rest);
    queue.complete(false);
    EXPECT_EQ(queue.events, 0U);
    queue.complete(true);
    EXPECT_EQ(queue.events, 1U);
    ASSERT_TRUE(queue.take_event());
    queue.poll(2);
    queue.arm(true);
    queue.complete(false);
    EXPECT_EQ(queue.events, 0U);
    EXPECT_EQ(queue.arm(false), Verdict::raise) << "nothing announced the unsolicited one";
}

TEST(CompletionNotifier, delays_an_event_as_moderation_says) {
    Queue queue;
    queue.notifier.moderate(3, std::chrono::milliseconds(2));
    queue.arm();
    const auto start = Clock::now();
    queue.complete();
    EXPECT_EQ(queue.events, 0U);
    EXPECT_GE(queue.notifier.due(), start + std::chrono::milliseconds(2));
    EXPECT_LE(queue.notifier.due(), Clock::now() + std::chrono::milliseconds(2));
    EXPECT_EQ(queue.look_late(queue.notifier.due()), Verdict::raise);
    ASSERT_TRUE(queue.take_event());
    queue.poll(1);
    queue.arm();
    queue.complete(), queue.complete();
    EXPECT_EQ(queue.events, 0U);
    queue.complete();
    EXPECT_EQ(queue.events, 1U) << "three are enough";
}

TEST(CompletionNotifier, raises_an_event_again_for_which_there_was_no_room) {
    Queue queue;
    queue.arm();
    queue.complete();
    ASSERT_EQ(queue.events, 1U);
    queue.notifier.postpone(queue.arming);
    const auto due = queue.notifier.due();
    EXPECT_NE(due, Clock::time_point::max());
    EXPECT_EQ(queue.look_late(due), Verdict::raise);
}

// Completions are written by one thread while another one arms: either sees the other.
TEST(CompletionNotifier, loses_no_event_between_threads) {
    Queue queue;
    constexpr std::uint32_t kCompletions = 20000;
    std::atomic<std::uint32_t> polled{0};
    queue.arm();
    std::thread device([&] {
        for (std::uint32_t i = 0; i < kCompletions; ++i) {
            while (i - polled.load() >= 1 + i / 64 % 3) std::this_thread::yield();
            queue.complete();
        }
    });
    const auto deadline = Clock::now() + std::chrono::seconds(50);
    bool in_time = true;
    while (in_time && polled.load() < kCompletions) {
        while (!queue.take_event() && in_time) {
            std::this_thread::yield();
            in_time = Clock::now() < deadline;
        }
        if (!in_time) break;
        queue.arm();
        const std::uint32_t found = queue.poll(1);
        EXPECT_EQ(found, 1U) << "an event without a completion";
        polled.fetch_add(found);
    }
    EXPECT_TRUE(in_time) << "sleeps for ever after " << polled.load() << " completions";
    polled.store(kCompletions);
    device.join();
}

}  // namespace
}  // namespace verbatim::uverbs

// Both ends of the shared-memory protocols as threads of one process (two devices, the same
// mappings), so that a thread sanitizer sees them; and the parts that several threads use at once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "softnic_end.hpp"
#include "softqueue/completion_ring.hpp"
#include "softqueue/gate.hpp"
#include "softqueue/queue_memory.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;

class Patience {
  public:
    bool over() const { return std::chrono::steady_clock::now() > end_; }

  private:
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kPatience;
};

TEST(Threads, gate_loses_no_work_and_admits_one) {
    Gate gate;
    std::atomic<int> inside{0};
    std::atomic<std::uint64_t> announced{0};
    std::uint64_t done = 0;  // of the thread inside
    const auto work = [&] {
        for (int i = 0; i < 20000; ++i) {
            announced.fetch_add(1, std::memory_order_relaxed);
            if (!gate.enter()) continue;
            do {
                ASSERT_EQ(inside.fetch_add(1), 0);
                done = announced.load(std::memory_order_relaxed);
                ASSERT_EQ(inside.fetch_sub(1), 1);
            } while (!gate.leave());
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(done, announced.load());
}

TEST(Threads, completions_of_several_writers_all_arrive_in_each_ones_order) {
    constexpr int kWriters = 3;
    constexpr std::uint32_t kEach = 3000;
    CompletionQueueMemory memory(64, 64, 1);
    CompletionRing ring(memory.view());
    std::vector<std::thread> writers;
    for (std::uint32_t writer = 0; writer < kWriters; ++writer)
        writers.emplace_back([&, writer] {
            for (std::uint32_t i = 0; i < kEach;) {
                mlx5::Cqe cqe;
                cqe.opcode_number = mlx5::be32(writer);
                cqe.byte_count = mlx5::be32(i);
                cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::requester, false);
                if (ring.push(cqe))
                    ++i;
                else
                    std::this_thread::yield();
            }
        });
    std::array<std::uint32_t, kWriters> next{};
    const Patience patience;
    for (std::uint32_t consumed = 0; consumed < kWriters * kEach && !patience.over();) {
        auto* const entry = reinterpret_cast<mlx5::Cqe*>(memory.view().buffer) + (consumed & 63);
        const std::uint8_t own = __atomic_load_n(&entry->op_own, __ATOMIC_ACQUIRE);
        if (((own & 1) != 0) != mlx5::owner_phase(consumed, 64)) {
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(entry->byte_count.native(), next.at(entry->opcode_number.native())++);
        ++consumed;
        __atomic_store_n(memory.view().doorbell_record, mlx5::be32(consumed & 0xffffff).raw(),
                         __ATOMIC_RELEASE);
    }
    for (std::thread& writer : writers) writer.join();
    for (const std::uint32_t count : next) EXPECT_EQ(count, kEach);
}

// Sends and receives with everything that can run full, polling only.
void exchange_messages(End& end, std::size_t count, std::atomic<std::size_t>& good) {
    std::size_t receives = 0, sends = 0, finished = 0;
    const Element from = end.element(0, 5000);
    const Patience patience;
    while (finished < 2 * count && !patience.over()) {
        if (receives < count && end.post_receive(100000 + receives % 16 * 5000, 5000) == Errc::ok)
            ++receives;
        if (sends < count && end.post_send(std::span(&from, 1)) == Errc::ok) ++sends;
        const auto seen = end.poll();
        if (seen.empty()) std::this_thread::yield();
        for (const Completion& completion : seen) good += completion.status == Errc::ok;
        finished += seen.size();
    }
}

TEST(Threads, ends_exchange_messages) {
    Pair pair;
    std::atomic<std::size_t> good{0};
    std::thread other([&] { exchange_messages(pair.b, 500, good); });
    exchange_messages(pair.a, 500, good);
    other.join();
    EXPECT_EQ(good.load(), 2000u);
}

std::uint64_t wait_change(const End& end, std::size_t offset, std::uint64_t old) {
    const Patience patience;
    std::uint64_t value = old;
    while (value == old && !patience.over()) {
        value = __atomic_load_n(reinterpret_cast<std::uint64_t*>(end.at(offset)), __ATOMIC_ACQUIRE);
        if (value == old) std::this_thread::yield();
    }
    return value;
}

// A receiver that polls memory reads everything that was written before the word it waits for.
TEST(Threads, ends_exchange_writes_found_by_polling_memory) {
    Pair pair;
    const auto play = [](End& end, bool first) {
        std::array<std::uint64_t, 20> block;
        for (std::uint64_t round = 1; round <= 500; ++round) {
            block.fill(round);
            if (first) {
                ASSERT_EQ(end.post_write(std::as_bytes(std::span(block)), 0, 0, round % 16 == 0),
                          Errc::ok);
            }
            ASSERT_EQ(wait_change(end, 19 * 8, round - 1), round);
            for (std::size_t word = 0; word < 19; ++word)
                ASSERT_EQ(*reinterpret_cast<std::uint64_t*>(end.at(word * 8)), round);
            if (!first) {
                ASSERT_EQ(end.post_write(std::as_bytes(std::span(block)), 0, 0, round % 16 == 0),
                          Errc::ok);
            }
            if (round % 16 == 0) static_cast<void>(end.poll());
        }
    };
    std::thread other([&] { play(pair.b, false); });
    play(pair.a, true);
    other.join();
}

TEST(Threads, keys_come_and_go_while_the_peer_uses_them) {
    End b;
    std::atomic<std::uint32_t> key{b.region->remote_key()};
    const std::jthread owner([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            const auto region =
                b.device->register_memory(b.at(4096), 4096, kAllAccess, {b.memory.file(), 4096});
            key.store(region->remote_key());
            std::this_thread::yield();
        }
    });
    std::size_t good = 0, refused = 0;
    const Patience patience;
    while ((good < 20 || refused < 5) && !patience.over()) {
        // A queue pair ends with its first refusal.
        QueuePairOptions wanted{.send_completions = b.completion_queue.get(),
                                .receive_completions = b.completion_queue.get()};
        const auto target = b.device->create_queue_pair(wanted);
        End a;
        a.connect({target->address(), reinterpret_cast<std::uint64_t>(b.at(4096)), 0});
        for (Errc status = Errc::ok; status == Errc::ok && !patience.over();) {
            a.peer.key = key.load();
            ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
            const auto seen = a.poll();
            ASSERT_EQ(seen.size(), 1u);
            status = seen[0].status;
            ASSERT_TRUE(status == Errc::ok || status == Errc::remote_access);
            ++(status == Errc::ok ? good : refused);
        }
    }
    EXPECT_GE(good, 20u);
    EXPECT_GE(refused, 5u);
}

TEST(Threads, queue_pairs_come_and_go_while_their_completion_queue_is_polled) {
    Pair pair;
    std::atomic<std::size_t> good{0};
    const std::jthread poller([&](const std::stop_token& stop) {
        // Keeps one connection busy through the shared completion queue.
        while (!stop.stop_requested()) {
            if (pair.a.post_write(pattern(8), 0) == Errc::ok)
                for (const Completion& completion : pair.a.poll())
                    good += completion.status == Errc::ok;
            static_cast<void>(pair.a.poll());
        }
    });
    End other;
    QueuePairOptions wanted{.send_completions = pair.a.completion_queue.get(),
                            .receive_completions = pair.a.completion_queue.get()};
    const Patience patience;
    for (int i = 0; (i < 50 || good.load() < 50) && !patience.over(); ++i) {
        const auto queue_pair = pair.a.device->create_queue_pair(wanted);
        other.queue_pair->reset();
        queue_pair->connect(other.queue_pair->address(), 5000);
        queue_pair->reset();
    }
    EXPECT_GE(good.load(), 50u);
}

TEST(Threads, failing_from_another_thread_retires_everything_once) {
    for (int round = 0; round < 20; ++round) {
        Pair pair;
        std::map<std::uint64_t, int> retired;
        std::thread killer([&] { pair.a.queue_pair->fail(); });
        std::uint64_t posted = 0;
        const Element from = pair.a.element(0, 64);
        const Patience patience;
        std::size_t count = 0;
        while ((posted < 100 || count < posted) && !patience.over()) {
            if (posted < 100) {
                const Errc result = posted % 2 == 0 ? pair.a.post_send(std::span(&from, 1), posted)
                                                    : pair.a.post_write(pattern(8), 0, posted);
                posted += result == Errc::ok;
            }
            for (const Completion& completion : pair.a.poll()) ++retired[completion.id], ++count;
        }
        killer.join();
        ASSERT_EQ(retired.size(), 100u);
        for (const auto& [id, times] : retired) ASSERT_EQ(times, 1) << id;
    }
}

}  // namespace
}  // namespace verbatim::softnic::test

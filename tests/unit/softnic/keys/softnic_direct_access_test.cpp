// Direct access to memory of the peer: what it needs, how it stands to requests, and that the
// memory cannot be taken away meanwhile. Threads of one process, also under the thread sanitizer,
// and two processes; each of its stores: softnic_revocation_steps_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "softnic_end.hpp"
#include "softnic_meeting.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr std::size_t kTarget = 4096, kBytes = 6000, kFlag = 65536;

EndOptions lax(bool barriers = true) {
    EndOptions options;
    options.device.port = PortKind::shm;
    options.device.strict_doorbells = false;
    options.device.membarrier = barriers;
    options.device.revocation_timeout = kPatience;
    return options;
}

std::byte* open(End& end, std::size_t offset = kTarget, std::size_t bytes = kBytes) {
    return end.queue_pair->open_remote(end.peer.address + offset, bytes, end.peer.key);
}
// Closes again at once.
bool opens(End& end, std::size_t offset = kTarget, std::size_t bytes = kBytes) {
    const bool is_open = open(end, offset, bytes) != nullptr;
    end.queue_pair->close_remote();
    return is_open;
}
bool is_all(const std::byte* bytes, std::size_t count, int value) {
    return std::all_of(bytes, bytes + count, [=](std::byte b) { return b == std::byte(value); });
}
// Whether it is still going on, although it had time.
template <class T>
bool waits(std::future<T>& work) {
    return work.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
}

// ---- stores and requests ----

TEST(DirectAccess, stores_are_there_before_what_is_posted_afterwards) {
    Pair pair(lax());
    const auto flag = [&] { return watch(pair.b, kFlag); };
    std::atomic<std::uint64_t> seen{0};
    constexpr std::uint64_t kRounds = 300;
    std::thread reader([&] {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            while (flag() != round && std::chrono::steady_clock::now() < deadline)
                std::this_thread::yield();
            EXPECT_TRUE(is_all(pair.b.at(kTarget), kBytes, static_cast<int>(round & 0xff)))
                << round;
            seen.store(round);
        }
    });
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        std::byte* const to = open(pair.a);
        EXPECT_NE(to, nullptr);
        if (to != nullptr) std::memset(to, static_cast<int>(round & 0xff), kBytes);
        pair.a.queue_pair->close_remote();
        EXPECT_EQ(pair.a.post_write(std::as_bytes(std::span(&round, 1)), kFlag), Errc::ok);
        static_cast<void>(pair.a.poll());
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (seen.load() != round && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
    }
    reader.join();
}

TEST(DirectAccess, what_is_posted_while_a_span_is_open_is_executed_by_its_close) {
    Pair pair(lax());
    std::byte* const to = open(pair.a);
    ASSERT_NE(to, nullptr);
    const std::uint64_t word = 7;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), kTarget), Errc::ok);
    EXPECT_TRUE(pair.a.poll().empty());
    std::memset(to, 1, kBytes);
    EXPECT_NE(watch(pair.b, kTarget), word);
    pair.a.queue_pair->close_remote();
    EXPECT_EQ(watch(pair.b, kTarget), word) << "it comes behind the stores";
    EXPECT_TRUE(is_all(pair.b.at(kTarget + 8), kBytes - 8, 1));
    EXPECT_EQ(pair.a.poll().size(), 1u);
}

TEST(DirectAccess, overtakes_no_message_that_the_peer_has_not_taken) {
    Pair pair(lax());
    const mlx5::Element some = pair.a.element(0, 100);
    ASSERT_EQ(pair.a.post_send(std::span(&some, 1)), Errc::ok);
    EXPECT_FALSE(opens(pair.a));
    ASSERT_EQ(pair.b.post_receive(kFlag, 100), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_TRUE(opens(pair.a));
}

TEST(DirectAccess, is_closed_by_the_thread_that_opened_and_by_no_other) {
    Pair pair(lax());
    ASSERT_NE(open(pair.a), nullptr);
    EXPECT_EQ(open(pair.a), nullptr) << "no span within another";
    std::thread([&] {
        EXPECT_EQ(open(pair.a), nullptr);
        pair.a.queue_pair->close_remote();
    }).join();
    auto released = std::async(std::launch::async, [&] { pair.b.region->release(); });
    EXPECT_TRUE(waits(released));
    pair.a.queue_pair->close_remote();
    released.get();
    pair.a.queue_pair->close_remote();  // without an effect
    EXPECT_FALSE(opens(pair.a));
}

// ---- what it needs ----

TEST(DirectAccess, needs_the_key_its_bounds_and_its_rights) {
    EndOptions reading = lax();
    reading.access = Access::local_write | Access::remote_read;
    Pair pair(lax());
    EXPECT_TRUE(opens(pair.a, 0, pair.b.memory.bytes())) << "1 MiB is the most";
    EXPECT_FALSE(opens(pair.a, 1, pair.b.memory.bytes()));
    EXPECT_FALSE(opens(pair.a, pair.b.memory.bytes() - 1, 2));
    EXPECT_FALSE(opens(pair.a, ~std::size_t{0}, 2));
    EXPECT_FALSE(opens(pair.a, kTarget, 0));
    ++pair.a.peer.key;
    EXPECT_FALSE(opens(pair.a));
    EXPECT_EQ(pair.a.queue_pair->failure_text(), "") << "nothing has failed";
    --pair.a.peer.key;
    EXPECT_TRUE(opens(pair.a));
    Pair other(lax(), reading);
    EXPECT_FALSE(opens(other.a));
    ASSERT_EQ(other.a.queue_pair->state(), QueuePairState::ready);
}

TEST(DirectAccess, takes_at_most_a_chunk) {
    EndOptions large = lax();
    large.memory_bytes = std::size_t{2} << 20;
    Pair pair(large);
    EXPECT_TRUE(opens(pair.a, 0, std::size_t{1} << 20));
    EXPECT_FALSE(opens(pair.a, 0, (std::size_t{1} << 20) + 1));
}

TEST(DirectAccess, needs_a_queue_pair_that_is_ready_at_both_ends) {
    Pair pair(lax());
    End alone(lax());
    alone.peer = pair.a.peer;
    EXPECT_FALSE(opens(alone));
    EXPECT_TRUE(opens(pair.a));
    pair.b.queue_pair->fail();
    EXPECT_FALSE(opens(pair.a)) << "the peer's";
    EXPECT_EQ(pair.a.queue_pair->state(), QueuePairState::ready) << "which is found by a request";
    Pair other(lax());
    other.a.queue_pair->fail();
    EXPECT_FALSE(opens(other.a));
}

TEST(DirectAccess, is_refused_where_something_looks_at_each_request) {
    EndOptions strict = lax(), faulty = lax(), parked = lax(), streaming = lax();
    strict.device.strict_doorbells = true;
    faulty.device.faults.rules.push_back({.nth = 1000});
    parked.device.parked = true;
    streaming.device.port = PortKind::tcp;
    for (const EndOptions* options : {&strict, &faulty, &parked}) {
        Pair pair(*options, lax());
        EXPECT_FALSE(opens(pair.a));
        EXPECT_TRUE(opens(pair.b));
    }
    Pair pair(streaming);
    EXPECT_FALSE(opens(pair.a));
}

// ---- ends ----

TEST(DirectAccess, failure_reset_and_destruction_close_it) {
    for (const int end : {0, 1, 2}) {
        Pair pair(lax());
        ASSERT_NE(open(pair.a), nullptr);
        ASSERT_EQ(pair.a.post_write(pattern(24), kTarget), Errc::ok);
        if (end == 0) pair.a.queue_pair->fail();
        if (end == 1) pair.a.queue_pair->reset();
        if (end == 2) pair.a.queue_pair.reset();
        if (end == 0) {
            EXPECT_EQ(pair.a.poll().size(), 1u) << "done, or flushed";
        }
        pair.b.region->release();
        if (end != 2) {
            EXPECT_FALSE(opens(pair.a));
        }
    }
}

TEST(DirectAccess, the_end_of_the_peers_queue_pair_waits_for_it) {
    for (const bool reset : {false, true}) {
        Pair pair(lax());
        std::byte* const to = open(pair.a);
        ASSERT_NE(to, nullptr);
        auto gone = std::async(std::launch::async, [&] {
            reset ? pair.b.queue_pair->reset() : pair.b.queue_pair.reset();
            std::memset(pair.b.at(kTarget), 0xee, kBytes);
        });
        EXPECT_TRUE(waits(gone));
        std::memset(to, 1, kBytes);
        pair.a.queue_pair->close_remote();
        gone.get();
        EXPECT_TRUE(is_all(pair.b.at(kTarget), kBytes, 0xee));
        EXPECT_FALSE(opens(pair.a));
    }
}

// The owner writes with plain stores as soon as the region is released.
void take_away_while_stored(bool barriers) {
    Pair pair(lax(barriers));
    std::vector<std::byte> memory(kBytes);
    std::atomic<std::uint32_t> key{0};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> opened{0}, refused{0};
    std::thread opener([&] {
        const auto address = reinterpret_cast<std::uint64_t>(memory.data());
        while (!stop.load()) {
            std::byte* const to = pair.a.queue_pair->open_remote(address, kBytes, key.load());
            (to == nullptr ? refused : opened).fetch_add(1);
            if (to == nullptr) continue;
            std::memset(to, 1, kBytes);
            pair.a.queue_pair->close_remote();
        }
    });
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (int round = 0; round < 30 && !testing::Test::HasFailure(); ++round) {
        auto region = pair.b.device->register_memory(memory.data(), kBytes, kAllAccess, {});
        key.store(region->remote_key());
        const std::uint64_t before = opened.load();
        while (opened.load() < before + 2 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        EXPECT_GT(opened.load(), before);
        region->release();
        std::memset(memory.data(), 0xee, kBytes);
        const std::uint64_t since = refused.load();
        while (refused.load() == since && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        EXPECT_TRUE(is_all(memory.data(), kBytes, 0xee));
    }
    stop.store(true);
    opener.join();
}

TEST(DirectAccess, stores_nothing_into_memory_that_was_released) {
    for (const bool barriers : {true, false}) take_away_while_stored(barriers);
}

// ---- processes ----

TEST(DirectAccess, of_a_peer_that_is_killed_goes_on_and_is_refused_then) {
    Child child([](Wire& wire) {
        End owner(lax());
        return meet(owner, wire) && wire.wait() ? 0 : 1;
    });
    End end(lax());
    ASSERT_TRUE(meet(end, child.wire()));
    std::byte* const to = open(end);
    ASSERT_NE(to, nullptr);
    child.kill(SIGKILL);
    EXPECT_EQ(child.reap(), -SIGKILL);
    std::memset(to, 1, kBytes);
    end.queue_pair->close_remote();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (opens(end) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_FALSE(opens(end));
}

// The word is the parent's, whatever the child does.
TEST(DirectAccess, a_forked_child_has_none_and_ends_none) {
    Pair pair(lax());
    ASSERT_NE(open(pair.a), nullptr);
    Child child([&](Wire& wire) {
        pair.a.queue_pair->close_remote();
        const bool none = open(pair.a) == nullptr;
        static_cast<void>(pair.a.post_write(pattern(24), kTarget));
        const bool flushed = pair.a.poll().size() == 1;
        wire.signal();
        return none && flushed ? 0 : 1;
    });
    EXPECT_TRUE(child.wire().wait());
    EXPECT_EQ(child.reap(), 0);
    auto released = std::async(std::launch::async, [&] { pair.b.region->release(); });
    EXPECT_TRUE(waits(released));
    pair.a.queue_pair->close_remote();
    released.get();
}

}  // namespace
}  // namespace verbatim::softnic::test

// One-sided reads, writes and atomics on memory that the peer lends.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <verbatim/core/one_sided.hpp>

#include "async/started.hpp"
#include "core_lent.hpp"

namespace verbatim::test {
namespace {

TEST(OneSided, reads_and_writes_typed_memory_of_the_peer) {
    Lent<Item> lent(100);
    for (std::size_t i = 0; i < 100; ++i) lent.there[i] = {i, 0.5 * static_cast<double>(i)};
    OneSided one_sided(lent.connection());
    const Local<Item> here(lent.arena(), 100);
    one_sided.read(lent.remote, *here, soon());
    EXPECT_EQ(std::memcmp(here->data(), lent.there->data(), here->size_bytes()), 0);
    here[7] = {700, 3.25};
    one_sided.write(std::span<const Item>(here->subspan(7, 1)), lent.remote[7], soon());
    EXPECT_EQ(lent.there[7].key, 700u);
    EXPECT_EQ(lent.there[8].key, 8u);
    one_sided.read(lent.remote.subspan(50, 10), here->subspan(0, 10), soon());
    EXPECT_EQ(here[9].key, 59u);
}

TEST(OneSided, transfers_over_the_segments_of_an_arena) {
    constexpr std::size_t kWords = (std::size_t{1} << 20) / 8;
    Lent<std::uint64_t> lent(kWords);
    std::iota(lent.there->begin(), lent.there->end(), 5);
    const Local<std::uint64_t> here(lent.arena(), 5 * kWords);  // more than two segments
    OneSided one_sided(lent.connection());
    for (std::size_t at = 0; at + kWords <= here->size(); at += kWords / 2) {
        const auto part = here->subspan(at, kWords);
        std::memset(part.data(), 0, part.size_bytes());
        one_sided.read(lent.remote, part, soon());
        ASSERT_EQ(std::memcmp(part.data(), lent.there->data(), part.size_bytes()), 0) << at;
        part[kWords / 3] = at;
        one_sided.write(std::span<const std::uint64_t>(part), lent.remote, soon());
        ASSERT_EQ(lent.there[kWords / 3], at);
        lent.there[kWords / 3] = 5 + kWords / 3;
    }
}

TEST(OneSided, counts_swaps_and_compares) {
    Lent<std::uint64_t> lent(2);
    lent.there[1] = 40;
    const Local<std::uint64_t> before(lent.arena(), 3);
    OneSided one_sided(lent.connection());
    Operation add, swap, other;
    ASSERT_EQ(one_sided.try_fetch_add(lent.remote[1], 2, &before[0], add), Errc::ok);
    ASSERT_EQ(one_sided.try_compare_swap(lent.remote[1], 42, 100, &before[1], swap), Errc::ok);
    ASSERT_EQ(one_sided.try_compare_swap(lent.remote[1], 42, 7, &before[2], other), Errc::ok);
    one_sided.wait(other, soon());
    EXPECT_EQ(one_sided.result(add), Errc::ok);
    EXPECT_EQ(before[0], 40u);
    EXPECT_EQ(before[1], 42u);
    EXPECT_EQ(before[2], 100u) << "no swap";
    EXPECT_EQ(lent.there[1], 100u);
    EXPECT_EQ(lent.there[0], 0u);
}

// Verbs have no atomics by masks.
TEST(OneSided, swaps_bits_where_the_device_can) {
    Lent<std::uint64_t> lent(1);
    lent.there[0] = 100;
    const Local<std::uint64_t> before(lent.arena(), 2);
    OneSided one_sided(lent.connection());
    Operation operation;
    const Errc error = one_sided.try_swap(lent.remote, 0xff, &before[0], operation, 0xf);
    if (error == Errc::ok) {
        one_sided.wait(operation, soon());
        EXPECT_EQ(before[0], 100u);
        EXPECT_EQ(lent.there[0], 0x6fu);
    } else {
        EXPECT_EQ(error, Errc::unsupported);
        EXPECT_EQ(small_config().device.data_path, "verbs") << "unsupported";
    }
    one_sided.read(lent.remote, before->first(1), soon());
    EXPECT_EQ(before[0], lent.there[0]);
}

// Lists of every length around what one doorbell and the send queue take.
TEST(OneSided, reads_many_keys_at_once) {
    constexpr std::size_t kKeys = 1000;
    Lent<Item> lent(kKeys);
    for (std::size_t i = 0; i < kKeys; ++i) lent.there[i].key = i;
    const Local<Item> here(lent.arena(), kKeys);
    OneSided one_sided(lent.connection());
    for (const std::size_t count : {1u, 2u, 31u, 32u, 33u, 55u, 56u, 64u, 65u, 100u, 1000u}) {
        std::vector<RemoteRead> reads(count);
        for (std::size_t i = 0; i < count; ++i) {
            here[i].key = ~std::uint64_t{0};
            reads[i] = {lent.remote[(i * 7) % kKeys].extent(),
                        reinterpret_cast<std::byte*>(&here[i])};
        }
        one_sided.read_all(reads, soon());
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(here[i].key, (i * 7) % kKeys) << count;
    }
}

TEST(OneSided, goes_on_where_the_queue_was_full) {
    constexpr std::size_t kCount = 5000;
    Lent<std::uint64_t> lent(1);
    const Local<std::uint64_t> before(lent.arena(), kCount);
    OneSided one_sided(lent.connection());
    std::vector<Operation> operations(kCount);
    std::size_t full = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        Errc error = Errc::ok;
        while ((error = one_sided.try_fetch_add(lent.remote, 1, &before[i], operations[i])) ==
               Errc::would_block) {
            ++full;
            (void)lent.connection().progress();
        }
        ASSERT_EQ(error, Errc::ok);
    }
    for (const Operation& one : operations) ASSERT_EQ(lent.wait_for(one_sided, one), Errc::ok);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(before[i], i) << "each took effect once";
    EXPECT_EQ(lent.there[0], kCount);
    RecordProperty("full", static_cast<int>(full));
}

TEST(OneSided, refuses_what_does_not_fit_and_loses_nothing) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    std::array<std::uint64_t, 8> outside{};
    OneSided one_sided(lent.connection());
    Operation operation;
    EXPECT_EQ(one_sided.try_read(lent.remote, here->first(7), operation), Errc::invalid_argument);
    EXPECT_EQ(one_sided.try_read(lent.remote.subspan(4, 5), here->first(5), operation),
              Errc::invalid_argument)
        << "beyond what was lent";
    EXPECT_EQ(one_sided.try_read(lent.remote[8], here->first(1), operation),
              Errc::invalid_argument);
    EXPECT_EQ(one_sided.try_read(lent.remote.subspan(0, 0), here->first(0), operation),
              Errc::invalid_argument);
    EXPECT_EQ(one_sided.try_read(lent.remote, std::span(outside), operation),
              Errc::invalid_argument)
        << "in no arena";
    EXPECT_EQ(one_sided.try_fetch_add(lent.remote, 1, &here[0], operation), Errc::invalid_argument)
        << "more than a word";
    EXPECT_EQ(one_sided.try_read_all({}, operation), Errc::invalid_argument);
    const RemoteRead none{lent.remote[8].extent(), reinterpret_cast<std::byte*>(&here[0])};
    EXPECT_EQ(one_sided.try_read_all({&none, 1}, operation), Errc::invalid_argument);
    one_sided.read(lent.remote, *here, soon());
}

TEST(OneSided, without_the_right_fails_and_what_came_before_does_not) {
    Lent<std::uint64_t> lent(8, Access::remote_read);
    const Local<std::uint64_t> here(lent.arena(), 8);
    OneSided one_sided(lent.connection());
    Operation read, write, behind;
    ASSERT_EQ(one_sided.try_read(lent.remote, *here, read), Errc::ok);
    ASSERT_EQ(one_sided.try_write(std::span<const std::uint64_t>(*here), lent.remote, write),
              Errc::ok);
    // It may have failed by now.
    const Errc third = one_sided.try_read(lent.remote, *here, behind);
    EXPECT_TRUE(is_refusal(lent.wait_for(one_sided, write)));
    EXPECT_EQ(one_sided.result(read), Errc::ok);
    if (third == Errc::ok) {
        EXPECT_NE(lent.wait_for(one_sided, behind), Errc::ok);
    }
    EXPECT_NE(one_sided.try_read(lent.remote, *here, behind), Errc::ok);
    EXPECT_TRUE(is_refusal(error_code_of([&] { one_sided.read(lent.remote, *here, soon()); })));
}

TEST(OneSided, of_a_peer_that_closed_retires_with_an_error) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    OneSided one_sided(lent.connection());
    one_sided.read(lent.remote, *here, soon());
    lent.stop_peer();
    lent.pair().receiver.reset();
    Operation operation;
    Errc error = Errc::ok;
    const Deadline deadline = soon();
    while (error == Errc::ok && !deadline.passed()) {
        error = one_sided.try_read(lent.remote, *here, operation);
        if (error == Errc::ok) error = lent.wait_for(one_sided, operation);
    }
    EXPECT_GT(error, Errc::would_block);
}

TEST(OneSided, that_would_block_in_a_handler_posts_nothing) {
    Lent<std::uint64_t> lent(1);
    const Local<std::uint64_t> here(lent.arena(), 1);
    here[0] = 4711;
    OneSided one_sided(lent.connection());
    Errc code = Errc::ok;
    lent.connection().on(3, [&](Message&) {
        code = error_code_of(
            [&] { one_sided.write(std::span<const std::uint64_t>(*here), lent.remote, soon()); });
    });
    lent.stop_peer();
    ASSERT_EQ(lent.pair().receiver->try_send(3, {}), Errc::ok);
    const Deadline deadline = soon();
    while (code == Errc::ok && !deadline.passed()) {
        (void)lent.connection().progress();
        (void)lent.pair().receiver->progress();
    }
    EXPECT_EQ(code, Errc::would_deadlock);
    one_sided.read(lent.remote, *here, soon());  // behind it, if it were there
    EXPECT_EQ(here[0], 0u);
}

// More segments than one request takes.
TEST(OneSided, over_the_end_of_an_arena_is_refused_as_a_whole) {
    Config config = small_config();
    config.arena.segment_bytes = 4096;
    config.arena.max_bytes = std::size_t{1} << 20;
    constexpr std::size_t kBytes = std::size_t{128} << 10, kMine = std::size_t{96} << 10;
    ConnectedPair pair(config, small_config());
    const Local<std::byte> there(pair.receiver->arena(), kBytes), here(pair.sender->arena(), kMine);
    ASSERT_LT(pair.sender->arena().usage().populated_bytes, kBytes);
    OneSided one_sided(*pair.sender);
    Operation operation;
    const RemoteSpan<std::byte> remote(
        RemoteExtent{reinterpret_cast<std::uint64_t>(there->data()), kBytes, 77, 0});
    EXPECT_EQ(one_sided.try_read(remote, std::span(here->data(), kBytes), operation),
              Errc::invalid_argument);
    EXPECT_EQ(operation.done, 0u);
    EXPECT_EQ(one_sided.try_read(remote.subspan(0, kMine), *here, operation), Errc::ok);
}

// The move ends with the request's error. Its outcome stays what it was.
TEST(OneSided, that_failed_stays_failed_beside_a_move) {
    Config config = small_config();
    config.connect.timeout = std::chrono::seconds(2);
    for (int i = 0; i < 20; ++i) {
        ConnectedPair pair(config, config);
        const Local<std::uint64_t> there(pair.receiver->arena(), 8), here(pair.sender->arena(), 8);
        const RemoteSpan<std::uint64_t> nothing(
            RemoteExtent{reinterpret_cast<std::uint64_t>(there->data()), 64, 77, 0});
        std::atomic<bool> stop{false};
        std::thread peer([&] {
            while (!stop) (void)pair.receiver->progress(), std::this_thread::yield();
        });
        Lane other = pair.sender_context.make_lane();
        OneSided one_sided(*pair.sender);
        Operation operation;
        EXPECT_EQ(one_sided.try_read(nothing, *here, operation), Errc::ok);
        for (volatile int wait = 50 * i; wait != 0;) wait = wait - 1;
        EXPECT_NE(error_code_of([&] { pair.sender->move_to(other); }), Errc::ok);
        Errc error = Errc::would_block;
        const Deadline deadline = soon();
        while ((error = one_sided.result(operation)) == Errc::would_block && !deadline.passed())
            (void)pair.sender->progress();
        EXPECT_TRUE(is_refusal(error));
        stop = true;
        peer.join();
    }
}

// A handler ends the connection while a list of reads waits for room.
TEST(OneSided, whose_connection_a_handler_ends_throws) {
    Config config = small_config();
    config.lane.mode = LaneMode::event;
    config.ring.send_blocks = 16;
    for (int i = 0; i < 10; ++i) {
        ConnectedPair pair(config, config);
        const Local<std::uint64_t> there(pair.receiver->arena(), 8),
            here(pair.sender_context.arena(), 8);
        Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
        const RemoteSpan<std::uint64_t> remote(grant.extents()[0]);
        ASSERT_EQ(pair.receiver->try_send(1, {}), Errc::ok);
        while (pair.sender->receive_message(soon()).channel() != 1) {
        }
        const std::vector<RemoteRead> reads(
            500'000, RemoteRead{remote[0].extent(), reinterpret_cast<std::byte*>(&here[0])});
        pair.sender->on(2, [&](Message&) { pair.sender.reset(); });
        std::atomic<bool> stop{false};
        std::thread peer([&] {
            const Deadline when = Deadline::after(std::chrono::microseconds(1000 + 137 * i));
            for (bool said = false; !stop; std::this_thread::yield()) {
                (void)pair.receiver->progress();
                if (!said && when.passed()) said = pair.receiver->try_send(2, {}) == Errc::ok;
            }
        });
        OneSided one_sided(*pair.sender);
        // All of them may have been read before.
        const Errc code = error_code_of([&] { one_sided.read_all(reads, soon()); });
        EXPECT_TRUE(code == Errc::peer_lost || code == Errc::ok);
        stop = true;
        peer.join();
    }
}

// Adds `times` to a word by compare-and-swap, as often as it takes.
Started add_by_swaps(OneSided one_sided, RemoteSpan<std::uint64_t> word, std::uint64_t* local,
                     int times, Errc& outcome) {
    outcome = Errc::would_block;
    Errc error = Errc::ok;
    std::uint64_t known = 0;
    for (int done = 0; done < times && error == Errc::ok;) {
        error = co_await one_sided.async([&](Operation& one) {
            return one_sided.try_compare_swap(word, known, known + 1, local, one);
        });
        done += error == Errc::ok && *local == known;
        known = *local + (*local == known);
    }
    outcome = error;
}

TEST(OneSided, lets_coroutines_go_on_with_the_lane) {
    Lent<std::uint64_t> lent(1);
    constexpr std::size_t kCoroutines = 20;
    const Local<std::uint64_t> local(lent.arena(), kCoroutines);
    std::array<Errc, kCoroutines> outcomes;
    for (std::size_t i = 0; i < kCoroutines; ++i)
        add_by_swaps(OneSided(lent.connection()), lent.remote, &local[i], 50, outcomes[i]);
    const Deadline deadline = soon();
    const auto is_over = [&] { return std::ranges::count(outcomes, Errc::would_block) == 0; };
    while (!is_over() && !deadline.passed()) (void)lent.connection().progress();
    for (const Errc outcome : outcomes) EXPECT_EQ(outcome, Errc::ok);
    EXPECT_EQ(lent.there[0], 50 * kCoroutines);
}

// Callbacks that count what they are told.
struct Counts {
    int ok = 0, failed = 0;
};
auto counting(OneSided& one_sided, const RemoteSpan<std::uint64_t>& word, std::uint64_t* before,
              Counts& counts) {
    auto attempt = [one_sided, word, before](Operation& one) mutable {
        return one_sided.try_fetch_add(word, 1, before, one);
    };
    auto done = [&counts](Errc outcome) { ++(outcome == Errc::ok ? counts.ok : counts.failed); };
    using Waiter = WhenDone<decltype(attempt), decltype(done)>;
    return std::make_unique<Waiter>(one_sided, attempt, done);
}

TEST(OneSided, calls_back_once_for_each_operation_beyond_its_queue) {
    Lent<std::uint64_t> lent(1);
    const Local<std::uint64_t> before(lent.arena(), 1000);
    OneSided one_sided(lent.connection());
    Counts counts, forgotten;
    std::vector<decltype(counting(one_sided, lent.remote, nullptr, counts))> waiters;
    for (std::size_t i = 0; i < 1000; ++i) {
        waiters.push_back(counting(one_sided, lent.remote, &before[i], counts));
        (void)counting(one_sided, lent.remote, &before[i], forgotten);  // ends at once
    }
    const Deadline deadline = soon();
    while (counts.ok + counts.failed < 1000 && !deadline.passed())
        (void)lent.connection().progress();
    for (int i = 0; i < 100; ++i) (void)lent.connection().progress();
    EXPECT_EQ(counts.ok, 1000);
    EXPECT_EQ(counts.failed, 0);
    EXPECT_GE(lent.there[0], 1000u);
}

TEST(OneSided, of_a_connection_that_ends_calls_back_with_the_reason) {
    for (const bool is_destroyed : {false, true}) {
        Lent<std::uint64_t> lent(1);
        const Local<std::uint64_t> before(lent.arena(), 200);
        OneSided one_sided(lent.connection());
        Counts counts;
        std::vector<decltype(counting(one_sided, lent.remote, nullptr, counts))> waiters;
        for (std::size_t i = 0; i < 200; ++i)
            waiters.push_back(counting(one_sided, lent.remote, &before[i], counts));
        lent.stop_peer();
        if (is_destroyed) {
            lent.pair().sender.reset();
        } else {
            lent.pair().receiver.reset();
            const Deadline deadline = soon();
            while (counts.ok + counts.failed < 200 && !deadline.passed())
                (void)lent.connection().progress();
        }
        EXPECT_EQ(counts.ok + counts.failed, 200) << is_destroyed;
        EXPECT_GE(lent.there[0], static_cast<std::uint64_t>(counts.ok));
    }
}

TEST(RemoteSpan, takes_only_what_can_be_one_out_of_a_message) {
    const RemoteSpan<Item> span(RemoteExtent{4096, 3 * sizeof(Item) + 5, 77, 0});
    EXPECT_EQ(span.size(), 3u);
    const auto parsed = RemoteSpan<Item>::parse(span.bytes());
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->extent().address, 4096u);
    EXPECT_EQ(parsed->size(), 3u);
    EXPECT_FALSE(RemoteSpan<Item>::parse(span.bytes().first(23)));
    for (const RemoteExtent& wrong :
         {RemoteExtent{4097, 16, 77, 0}, {4096, 17, 77, 0}, {4096, 16, 77, 1}})
        EXPECT_FALSE(RemoteSpan<Item>::parse(std::as_bytes(std::span(&wrong, 1))));
    EXPECT_TRUE(span.subspan(1, ~std::size_t{0}).empty());
    EXPECT_TRUE(span.subspan(4, 0).empty());
    EXPECT_EQ(span.subspan(1, 2).extent().address, 4096 + sizeof(Item));
}

}  // namespace
}  // namespace verbatim::test

// Prepared one-sided operations.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "core_lent.hpp"

namespace verbatim::test {
namespace {

using Words = RemoteSpan<std::uint64_t>;

// Executes it once, however full the queue is, and waits for the outcome.
template <class Lender, class Prepared, class... Arguments>
Errc run(Lender& lent, Prepared& prepared, Arguments... arguments) {
    const Deadline deadline = soon();
    Errc error = Errc::would_block;
    while ((error = prepared.execute(arguments...)) == Errc::would_block && !deadline.passed())
        (void)lent.connection().progress();
    if (error != Errc::ok) return error;
    while ((error = prepared.result()) == Errc::would_block && !deadline.passed())
        (void)lent.connection().progress();
    return error;
}

// Polls until the operation is invalid.
template <class Prepared>
bool becomes_invalid(Connection& connection, const Prepared& prepared) {
    const Deadline deadline = soon();
    while (prepared.valid() && !deadline.passed()) (void)connection.progress();
    return !prepared.valid();
}

TEST(Prepared, reads_at_any_offset_into_any_part_of_its_segment) {
    Lent<Item> lent(100);
    for (std::size_t i = 0; i < 100; ++i) lent.there[i] = {i, 0.5 * static_cast<double>(i)};
    const Local<Item> here(lent.arena(), 10);
    PreparedRead<Item> read(OneSided(lent.connection()), lent.remote, here->first(2));
    EXPECT_EQ(read.result(), Errc::invalid_argument) << "there was none";
    for (const std::size_t first : {0u, 7u, 98u}) {
        ASSERT_EQ(run(lent, read, first), Errc::ok);
        EXPECT_EQ(here[0].key, first);
        EXPECT_EQ(here[1].key, first + 1);
    }
    ASSERT_EQ(read.set_local(here->subspan(8, 2)), Errc::ok);
    ASSERT_EQ(run(lent, read, std::size_t{40}), Errc::ok);
    EXPECT_EQ(here[9].key, 41u);
    EXPECT_EQ(here[1].key, 99u) << "it is left alone";
}

TEST(Prepared, writes_what_local_memory_holds_then) {
    Lent<std::uint64_t> lent(4);
    const Local<std::uint64_t> here(lent.arena(), 2);
    OneSided one_sided(lent.connection());
    PreparedWrite<std::uint64_t> write(one_sided, here->first(1), lent.remote);
    here[0] = 11;
    ASSERT_EQ(run(lent, write, std::size_t{3}), Errc::ok);
    here[0] = 12;
    ASSERT_EQ(run(lent, write), Errc::ok);
    EXPECT_EQ(lent.there[0], 12u);
    EXPECT_EQ(lent.there[3], 11u);
    here[0] = 13;
    ASSERT_EQ(write.execute(), Errc::ok);
    while (lent.connection().try_flush() == Errc::would_block) {
    }
    EXPECT_EQ(lent.there[0], 13u) << "a flush waits for it";
}

TEST(Prepared, atomics_take_other_operands_and_words) {
    Lent<std::uint64_t> lent(4);
    const Local<std::uint64_t> before(lent.arena(), 2);
    OneSided one_sided(lent.connection());
    PreparedFetchAdd add(one_sided, lent.remote, &before[0]);
    ASSERT_EQ(run(lent, add, std::uint64_t{5}, std::size_t{2}), Errc::ok);
    ASSERT_EQ(run(lent, add, std::uint64_t{6}, std::size_t{2}), Errc::ok);
    EXPECT_EQ(before[0], 5u);
    PreparedCompareSwap swap(one_sided, lent.remote, &before[1]);
    ASSERT_EQ(run(lent, swap, std::uint64_t{11}, std::uint64_t{100}, std::size_t{2}), Errc::ok);
    EXPECT_EQ(before[1], 11u);
    EXPECT_EQ(lent.there[2], 100u);
    EXPECT_EQ(add.execute(1, 4), Errc::invalid_argument);
    EXPECT_EQ(swap.execute(1, 1, ~std::size_t{0}), Errc::invalid_argument);
}

TEST(Prepared, lists_read_each_key_into_its_own_place) {
    constexpr std::size_t kKeys = 1000;
    Lent<Item> lent(kKeys);
    for (std::size_t i = 0; i < kKeys; ++i) lent.there[i].key = i;
    const Local<Item> here(lent.arena(), kKeys);
    OneSided one_sided(lent.connection());
    const auto read_of = [&](std::size_t key, std::size_t into) {
        return RemoteRead{lent.remote[key].extent(), reinterpret_cast<std::byte*>(&here[into])};
    };
    for (const std::size_t count : {1u, 2u, 31u, 56u, 65u, 100u, 1000u}) {
        std::vector<RemoteRead> reads;
        for (std::size_t i = 0; i < count; ++i) reads.push_back(read_of((i * 7) % kKeys, i));
        PreparedReads list(one_sided, reads);
        ASSERT_EQ(list.size(), count);
        for (std::size_t round = 0; round < 3; ++round) {
            for (Item& item : *here) item.key = ~std::uint64_t{0};
            ASSERT_EQ(run(lent, list), Errc::ok);
            for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(here[i].key, (i * 7 + round) % kKeys) << count;
            for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(list.set(i, read_of((i * 7 + round + 1) % kKeys, i)), Errc::ok);
        }
    }
}

TEST(Prepared, refuses_what_would_extend_it_and_loses_nothing) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    std::array<std::uint64_t, 8> outside{};
    OneSided one_sided(lent.connection());
    PreparedRead<std::uint64_t> read(one_sided, lent.remote, here->first(3));
    EXPECT_EQ(read.execute(6), Errc::invalid_argument);
    EXPECT_EQ(read.execute(~std::size_t{0} / 8 + 2), Errc::invalid_argument) << "it wraps round";
    EXPECT_EQ(read.set_local(here->first(4)), Errc::invalid_argument);
    EXPECT_EQ(read.set_local(std::span(outside).first(3)), Errc::invalid_argument);
    const auto prepare = [&](Words from, std::span<std::uint64_t> into) {
        return error_code_of([&] { PreparedRead<std::uint64_t> one(one_sided, from, into); });
    };
    EXPECT_EQ(prepare(lent.remote.subspan(0, 2), here->first(3)), Errc::invalid_argument);
    EXPECT_EQ(prepare(lent.remote, here->first(0)), Errc::invalid_argument);
    EXPECT_EQ(prepare(lent.remote, std::span(outside)), Errc::invalid_argument);
    EXPECT_EQ(error_code_of([&] { PreparedReads list(one_sided, {}); }), Errc::invalid_argument);
    const RemoteRead good{lent.remote[1].extent(), reinterpret_cast<std::byte*>(&here[0])};
    PreparedReads list(one_sided, {&good, 1});
    EXPECT_EQ(list.set(1, good), Errc::invalid_argument);
    EXPECT_EQ(list.set(0, {lent.remote[8].extent(), good.into}), Errc::invalid_argument);
    EXPECT_EQ(run(lent, read), Errc::ok);
    EXPECT_EQ(run(lent, list), Errc::ok);
}

TEST(Prepared, is_invalid_behind_the_end_of_its_grant_and_the_connection_goes_on) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    OneSided one_sided(lent.connection());
    PreparedRead<std::uint64_t> read(one_sided, lent.remote, *here);
    PreparedFetchAdd add(one_sided, lent.remote, &here[0]);
    const RemoteRead one{lent.remote[1].extent(), reinterpret_cast<std::byte*>(&here[0])};
    PreparedReads list(one_sided, {&one, 1});
    ASSERT_EQ(run(lent, read), Errc::ok);
    EXPECT_TRUE(read.valid());
    lent.end_grant();
    EXPECT_EQ(lent.connection().receive_message(soon()).channel(), 2u);
    EXPECT_FALSE(read.valid()) << "the notice comes before the message";
    EXPECT_FALSE(add.valid());
    EXPECT_FALSE(list.valid());
    EXPECT_EQ(read.execute(), Errc::invalid_prepared);
    EXPECT_EQ(add.execute(1), Errc::invalid_prepared);
    EXPECT_EQ(list.execute(), Errc::invalid_prepared);
    EXPECT_EQ(list.set(0, one), Errc::invalid_prepared);
    EXPECT_EQ(read.result(), Errc::ok) << "of the last execution";
    EXPECT_EQ(lent.connection().try_send(1, {}), Errc::ok);
}

TEST(Prepared, hears_of_the_end_where_the_program_only_polls) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    PreparedRead<std::uint64_t> read(OneSided(lent.connection()), lent.remote, *here);
    lent.end_grant();
    EXPECT_TRUE(becomes_invalid(lent.connection(), read));
    EXPECT_EQ(lent.connection().receive_message(soon()).channel(), 2u) << "it is still there";
}

// Two grants, of which the second ends.
TEST(Prepared, lists_end_with_any_of_their_grants_and_others_stay) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver->arena(), 16), here(pair.sender->arena(), 2);
    const Grant kept(*pair.receiver, std::as_writable_bytes(there->first(8)), kAll);
    Grant ended(*pair.receiver, std::as_writable_bytes(there->subspan(8, 8)), kAll);
    const Words first(kept.extents()[0]), second(ended.extents()[0]);
    OneSided one_sided(*pair.sender);
    auto* const into = reinterpret_cast<std::byte*>(&here[0]);
    const std::array<RemoteRead, 2> both{RemoteRead{first[0].extent(), into},
                                         RemoteRead{second[0].extent(), into + 8}};
    PreparedReads list(one_sided, both), other(one_sided, std::span(both).first(1));
    ended.end();
    const Deadline deadline = soon();
    while (list.valid() && !deadline.passed())
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    EXPECT_FALSE(list.valid());
    EXPECT_TRUE(other.valid());
    EXPECT_EQ(other.execute(), Errc::ok);
    while (other.result() == Errc::would_block && !deadline.passed())
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    EXPECT_EQ(other.result(), Errc::ok);
}

TEST(Prepared, hears_of_ends_that_found_the_ring_full) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver->arena(), 8), here(pair.sender->arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    PreparedRead<std::uint64_t> read(OneSided(*pair.sender), Words(grant.extents()[0]), *here);
    std::size_t sent = 0;
    const std::vector<std::byte> filler(1000);
    while (pair.receiver->try_send(7, filler) == Errc::ok) ++sent;
    grant.end();
    const Deadline deadline = soon();
    Message message;
    while (read.valid() && !deadline.passed()) {
        (void)pair.receiver->progress();
        if (pair.sender->try_receive(message) == Errc::ok) --sent;
    }
    EXPECT_FALSE(read.valid());
    while (!grant.has_ended() && !deadline.passed()) (void)pair.receiver->progress();
    EXPECT_TRUE(grant.has_ended());
    while (sent != 0 && !deadline.passed()) {
        (void)pair.receiver->progress();
        if (pair.sender->try_receive(message) == Errc::ok) --sent;
    }
    EXPECT_EQ(sent, 0u) << "and no message was lost";
}

TEST(Prepared, freed_is_invalid_and_what_it_executed_goes_on) {
    Lent<std::uint64_t> lent(8);
    lent.there[0] = 77;
    const Local<std::uint64_t> here(lent.arena(), 8);
    OneSided one_sided(lent.connection());
    PreparedRead<std::uint64_t> read(one_sided, lent.remote, *here);
    PreparedRead<std::uint64_t> taken(std::move(read));
    EXPECT_TRUE(taken.valid());
    ASSERT_EQ(taken.execute(), Errc::ok);
    const Operation last = taken.last();
    taken.free();
    EXPECT_FALSE(taken.valid());
    EXPECT_EQ(taken.execute(), Errc::invalid_prepared);
    one_sided.wait(last, soon());
    EXPECT_EQ(here[0], 77u);
}

TEST(Prepared, outlives_its_connection) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver->arena(), 8),
        here(pair.sender_context.arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    const Words remote(grant.extents()[0]);
    OneSided one_sided(*pair.sender);
    PreparedRead<std::uint64_t> read(one_sided, remote, *here), never(one_sided, remote, *here);
    ASSERT_EQ(read.execute(), Errc::ok);
    const Deadline deadline = soon();
    while (read.result() == Errc::would_block && !deadline.passed())
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    std::atomic<bool> stop{false};
    std::thread peer([&] {
        while (!stop) (void)pair.receiver->progress(), std::this_thread::yield();
    });
    pair.sender.reset();
    EXPECT_FALSE(read.valid());
    EXPECT_EQ(read.execute(), Errc::invalid_prepared);
    EXPECT_EQ(read.result(), Errc::ok);
    EXPECT_EQ(never.result(), Errc::invalid_argument);
    stop = true;
    peer.join();
}

TEST(Prepared, is_invalid_once_the_peer_has_gone) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    PreparedRead<std::uint64_t> read(OneSided(lent.connection()), lent.remote, *here);
    lent.stop_peer();
    lent.pair().receiver.reset();
    EXPECT_TRUE(becomes_invalid(lent.connection(), read));
    EXPECT_GT(read.execute(), Errc::would_block);
}

TEST(Prepared, is_offered_and_told_as_others_are) {
    Lent<std::uint64_t> lent(1);
    const Local<std::uint64_t> here(lent.arena(), 1);
    OneSided one_sided(lent.connection());
    PreparedFetchAdd add(one_sided, lent.remote, &here[0]);
    Errc outcome = Errc::would_block;
    WhenDone told(
        one_sided,
        [&](Operation& operation) {
            const Errc error = add.execute(3);
            operation = add.last();
            return error;
        },
        [&](Errc error) { outcome = error; });
    const Deadline deadline = soon();
    while (outcome == Errc::would_block && !deadline.passed()) (void)lent.connection().progress();
    EXPECT_EQ(outcome, Errc::ok);
    EXPECT_EQ(lent.there[0], 3u);
}

}  // namespace
}  // namespace verbatim::test

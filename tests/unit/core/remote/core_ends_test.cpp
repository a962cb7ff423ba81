// Ends beside one-sided operations: of the connection in a callback, and behind notices of grants.
#include <algorithm>
#include <memory>
#include <vector>

#include "core_lent.hpp"

namespace verbatim::test {
namespace {

using Words = RemoteSpan<std::uint64_t>;

template <class Attempt, class Done>
auto when_done(OneSided& one_sided, Attempt attempt, Done done) {
    return std::make_unique<WhenDone<Attempt, Done>>(one_sided, attempt, done);
}

// Polls both ends until `done`. False: it took too long.
template <class Done>
bool poll_until(ConnectedPair& pair, Done done) {
    const Deadline deadline = soon();
    while (!done() && !deadline.passed()) {
        if (pair.receiver) (void)pair.receiver->progress();
        if (pair.sender) (void)pair.sender->progress();
    }
    return done();
}

TEST(Ends, a_callback_that_ends_the_connection_leaves_no_other_untold) {
    Lent<std::uint64_t> lent(1);
    constexpr int kWaiters = 20;
    const Local<std::uint64_t> before(lent.pair().sender_context.arena(), kWaiters);
    OneSided one_sided(lent.connection());
    int told = 0;
    const auto attempt = [&](Operation& one) {
        return one_sided.try_fetch_add(lent.remote, 1, &before[0], one);
    };
    const auto done = [&](Errc) {
        if (++told == 1) lent.pair().sender.reset();
    };
    std::vector<decltype(when_done(one_sided, attempt, done))> waiters;
    for (int i = 0; i < kWaiters; ++i) waiters.push_back(when_done(one_sided, attempt, done));
    ASSERT_EQ(told, 0);
    const Deadline deadline = soon();
    while (lent.pair().sender && !deadline.passed()) (void)lent.connection().progress();
    Context& context = lent.pair().sender_context;
    while (told != kWaiters && !deadline.passed()) (void)context.lane().poll();
    EXPECT_EQ(told, kWaiters);
}

TEST(Ends, prepared_results_can_be_asked_for_in_the_last_callbacks) {
    Lent<std::uint64_t> lent(1);
    ConnectedPair& pair = lent.pair();
    const Local<std::uint64_t> here(pair.sender_context.arena(), 1);
    constexpr int kWaiters = 60;
    OneSided one_sided(lent.connection());
    const Words nothing(RemoteExtent{lent.remote.extent().address, 8, 77, 0});
    std::vector<PreparedRead<std::uint64_t>> reads;
    for (int i = 0; i < kWaiters; ++i) reads.emplace_back(one_sided, nothing, *here);
    std::vector<Errc> results;
    const auto told_of = [&](PreparedRead<std::uint64_t>& read) {
        const auto attempt = [&read](Operation& one) {
            const Errc error = read.execute();
            one = read.last();
            return error;
        };
        return when_done(one_sided, attempt, [&](Errc) { results.push_back(read.result()); });
    };
    std::vector<decltype(told_of(reads[0]))> waiters;
    for (auto& read : reads) waiters.push_back(told_of(read));
    const Deadline deadline = soon();
    while (lent.connection().progress() == Errc::ok && !deadline.passed()) {
    }
    lent.pair().sender.reset();
    EXPECT_EQ(results.size(), static_cast<std::size_t>(kWaiters));
    for (const Errc result : results) EXPECT_GT(result, Errc::would_block);
}

TEST(Ends, a_notice_that_nobody_asks_for_does_not_hide_the_end_of_the_connection) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    grant.end();
    ASSERT_TRUE(poll_until(pair, [&] { return grant.has_ended(); }));
    pair.receiver.reset();
    EXPECT_TRUE(poll_until(pair, [&] { return pair.sender->state() != Errc::ok; }));
    EXPECT_TRUE(pair.sender->peer_closed());
}

TEST(Ends, a_notice_counts_as_taken_where_all_messages_were) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    ASSERT_EQ(pair.receiver->try_send(1, {}), Errc::ok);
    EXPECT_EQ(pair.sender->receive_message(soon()).channel(), 1u);
    grant.end();
    ASSERT_TRUE(poll_until(pair, [&] { return grant.has_ended(); }));
    pair.sender.reset();
    EXPECT_TRUE(poll_until(pair, [&] { return pair.receiver->state() != Errc::ok; }));
    EXPECT_TRUE(pair.receiver->peer_took_all());
}

// The bye may have been said when the notice goes.
TEST(Ends, a_notice_behind_the_peers_close_counts_for_nothing) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    ASSERT_EQ(pair.receiver->try_send(1, {}), Errc::ok);
    EXPECT_EQ(pair.sender->receive_message(soon()).channel(), 1u);
    pair.sender.reset();
    grant.end();
    EXPECT_TRUE(poll_until(pair, [&] { return pair.receiver->state() != Errc::ok; }));
    EXPECT_TRUE(pair.receiver->peer_took_all());
}

TEST(Ends, a_notice_behind_a_message_that_was_not_taken_hides_nothing) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    ASSERT_EQ(pair.receiver->try_send(1, {}), Errc::ok);
    grant.end();
    pair.sender.reset();
    EXPECT_TRUE(poll_until(pair, [&] { return pair.receiver->state() != Errc::ok; }));
    EXPECT_FALSE(pair.receiver->peer_took_all());
}

TEST(Ends, a_list_of_a_connection_that_has_ended_cannot_be_prepared) {
    Lent<std::uint64_t> lent(8);
    const Local<std::uint64_t> here(lent.arena(), 8);
    OneSided one_sided(lent.connection());
    lent.stop_peer();
    lent.pair().receiver.reset();
    const Deadline deadline = soon();
    while (lent.connection().progress() == Errc::ok && !deadline.passed()) {
    }
    const RemoteRead one{lent.remote[1].extent(), reinterpret_cast<std::byte*>(&here[0])};
    EXPECT_EQ(
        error_code_of([&] { PreparedRead<std::uint64_t> read(one_sided, lent.remote, *here); }),
        Errc::peer_lost);
    EXPECT_EQ(error_code_of([&] {
                  PreparedReads list(one_sided, {&one, 1});
                  EXPECT_FALSE(list.valid());
              }),
              Errc::peer_lost);
}

// The grant ends while a part of the list has been accepted.
TEST(Ends, a_list_that_was_accepted_in_part_is_not_done) {
    Config config = small_config();
    config.ring.send_blocks = 16;
    ConnectedPair pair(config, config);
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8),
        here(pair.sender_context.arena(), 100);
    Grant grant(*pair.receiver, std::as_writable_bytes(*there), kAll);
    const Words remote(grant.extents()[0]);
    std::vector<RemoteRead> reads;
    for (std::size_t i = 0; i < 100; ++i) {
        here[i] = 77;
        reads.push_back({remote[0].extent(), reinterpret_cast<std::byte*>(&here[i])});
    }
    std::ranges::fill(*there, 0);
    PreparedReads list(OneSided(*pair.sender), reads);
    // What the queue holds for other reasons would be all that it takes.
    ASSERT_TRUE(poll_until(pair, [&] { return pair.sender->try_flush() == Errc::ok; }));
    ASSERT_EQ(list.execute(), Errc::would_block);
    ASSERT_TRUE(poll_until(pair, [&] { return here[0] == 0; }));
    grant.end();
    ASSERT_TRUE(poll_until(pair, [&] { return !list.valid(); }));
    EXPECT_EQ(list.execute(), Errc::invalid_prepared);
    EXPECT_EQ(here[99], 77u);
    for (int i = 0; i < 1000; ++i) (void)pair.sender->progress(), (void)pair.receiver->progress();
    EXPECT_NE(list.result(), Errc::ok) << "the rest was never read";
    pair.sender.reset();
    EXPECT_NE(list.result(), Errc::ok) << "nor later";
}

// Ends that no notice tells of come before a move all the same.
TEST(Ends, a_move_ends_what_was_prepared) {
    ConnectedPair pair;
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8),
        here(pair.sender_context.arena(), 8);
    Grant grant = Grant::begin(*pair.receiver, std::as_writable_bytes(*there), kAll, nullptr,
                               EndNotice::none);
    ASSERT_TRUE(poll_until(pair, [&] { return grant.is_ready(); }));
    const Words remote(grant.extents()[0]);
    OneSided one_sided(*pair.sender);
    PreparedRead<std::uint64_t> read(one_sided, remote, *here);
    const RemoteRead one{remote[1].extent(), reinterpret_cast<std::byte*>(&here[0])};
    PreparedReads list(one_sided, {&one, 1});
    grant.end();
    ASSERT_TRUE(poll_until(pair, [&] { return grant.has_ended(); }));
    std::atomic<bool> stop{false};
    std::thread peer([&] {
        while (!stop) (void)pair.receiver->progress(), std::this_thread::yield();
    });
    Lane other = pair.sender_context.make_lane();
    pair.sender->move_to(other);
    EXPECT_FALSE(read.valid());
    EXPECT_FALSE(list.valid());
    EXPECT_EQ(read.execute(), Errc::invalid_prepared);
    EXPECT_EQ(list.execute(), Errc::invalid_prepared);
    EXPECT_EQ(pair.sender->state(), Errc::ok);
    pair.sender.reset();
    stop = true;
    peer.join();
}

// The notice of an end waits for room in the ring, and the window's key comes round meanwhile.
TEST(Ends, a_late_notice_does_not_end_what_a_later_grant_lends) {
    Config config = small_config();
    config.ring.bytes = 4096;
    ConnectedPair pair(config, config);
    const Local<std::uint64_t> there(pair.receiver_context.arena(), 8),
        here(pair.sender_context.arena(), 8);
    const auto memory = std::as_writable_bytes(*there);
    const std::vector<std::byte> filler(200);
    while (pair.receiver->try_send(7, filler) == Errc::ok) {
    }
    while (pair.receiver->try_send(7, {}) == Errc::ok) {
    }
    Grant grant(*pair.receiver, memory, kAll);
    const std::uint32_t key = grant.extents()[0].remote_key;
    std::vector<std::uint32_t> keys;
    do {
        grant.wait_end(soon());
        grant = Grant(*pair.receiver, memory, kAll);
        keys.push_back(grant.extents()[0].remote_key);
    } while (keys.back() != key && keys.size() < 1000);
    const Words remote(grant.extents()[0]);
    // The message that tells the peer of it is faster than the notices.
    const Deadline deadline = soon();
    bool is_said = false;
    for (Message message; !deadline.passed();) {
        is_said = is_said || pair.receiver->try_send(1, remote.bytes()) == Errc::ok;
        if (pair.sender->try_receive(message) == Errc::ok && message.channel() == 1) break;
        message.release();
    }
    PreparedRead<std::uint64_t> read(OneSided(*pair.sender), remote, *here);
    for (int i = 0; i < 2000; ++i) {
        (void)pair.receiver->progress(), (void)pair.sender->progress();
        Message message;
        (void)pair.sender->try_receive(message);
    }
    EXPECT_TRUE(read.valid()) << "its grant has not ended";
}

}  // namespace
}  // namespace verbatim::test

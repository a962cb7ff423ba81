// Grants: a peer touches exactly the bytes lent, for as long as they are lent.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core_messages.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kBytes = 4096;

// A connection, memory of the receiver, and memory of the sender to write from.
struct Lending : ConnectedPair {
    explicit Lending(const Config& config = small_config()) : ConnectedPair(config, config) {
        target = static_cast<std::byte*>(receiver->receive_arena().allocate(3 * kBytes, 64));
        source = static_cast<std::byte*>(sender->arena().allocate(kBytes, 64));
        std::memset(target, 0x11, 3 * kBytes);
        std::memset(source, 0x22, kBytes);
    }
    // The middle of the memory.
    std::span<std::byte> middle() const { return {target + kBytes, kBytes}; }
    Grant lend(std::shared_ptr<void> owner = nullptr) {
        Grant grant(*receiver, middle(), Access::remote_write, std::move(owner));
        // Its key works for what follows a message.
        EXPECT_EQ(receiver->try_send(1, {}), Errc::ok);
        Message message;
        const Deadline deadline = soon();
        while (sender->try_receive(message) == Errc::would_block && !deadline.passed())
            (void)receiver->progress();
        return grant;
    }
    // The outcome of a write to `offset` of the grant's first extent.
    Errc write(const RemoteExtent& to, std::ptrdiff_t offset, std::size_t bytes) {
        std::size_t written = 0;
        Errc code = sender->try_write(
            source, bytes, to.address + static_cast<std::uint64_t>(offset), to.remote_key, written);
        const Deadline deadline = soon();
        if (code == Errc::ok) code = Errc::would_block;
        while (code == Errc::would_block && !deadline.passed()) {
            code = sender->try_flush();
            (void)receiver->progress();
        }
        return code;
    }
    bool is_untouched(std::size_t from, std::size_t bytes) const {
        for (std::size_t i = from; i < from + bytes; ++i)
            if (target[i] != std::byte{0x11}) return false;
        return true;
    }

    std::byte *target = nullptr, *source = nullptr;
};

// Calls a function when its last owner goes.
std::shared_ptr<void> owner_that(std::function<void()> tells) {
    return {nullptr, [tells = std::move(tells)](void*) { tells(); }};
}

TEST(Grants, let_the_peer_write_exactly_what_was_lent) {
    Lending pair;
    const Grant grant = pair.lend();
    ASSERT_TRUE(grant.is_ready());
    ASSERT_EQ(grant.extents().size(), 1u);
    EXPECT_EQ(grant.extents()[0].bytes, kBytes);
    EXPECT_EQ(pair.write(grant.extents()[0], 0, kBytes), Errc::ok);
    EXPECT_EQ(std::memcmp(pair.middle().data(), pair.source, kBytes), 0);
    EXPECT_TRUE(pair.is_untouched(0, kBytes));
    EXPECT_TRUE(pair.is_untouched(2 * kBytes, kBytes));
}

// The key reaches the peer by another way than a message, and the lender polls no more.
TEST(Grants, are_open_once_they_are_made) {
    Lending pair;
    const Grant grant(*pair.receiver, pair.middle(), Access::remote_write);
    const RemoteExtent to = grant.extents()[0];
    std::size_t written = 0;
    ASSERT_EQ(pair.sender->try_write(pair.source, 8, to.address, to.remote_key, written), Errc::ok);
    const Deadline deadline = soon();
    while (pair.sender->try_flush() == Errc::would_block && !deadline.passed()) continue;
    EXPECT_EQ(pair.sender->try_flush(), Errc::ok);
    EXPECT_EQ(std::memcmp(pair.middle().data(), pair.source, 8), 0);
}

TEST(Grants, do_not_lead_beyond_either_end) {
    for (const std::ptrdiff_t offset : {std::ptrdiff_t{-8}, std::ptrdiff_t{kBytes - 4}}) {
        Lending pair;
        const Grant grant = pair.lend();
        EXPECT_GT(pair.write(grant.extents()[0], offset, 8), Errc::would_block);
        EXPECT_TRUE(pair.is_untouched(0, 3 * kBytes));
    }
}

TEST(Grants, that_have_ended_are_of_no_use_to_the_peer) {
    Lending pair;
    Grant grant = pair.lend();
    const RemoteExtent known = grant.extents()[0];
    EXPECT_EQ(pair.write(known, 0, 8), Errc::ok);
    std::memset(pair.target, 0x11, 3 * kBytes);
    grant.wait_end(soon());
    EXPECT_TRUE(grant.has_ended());
    EXPECT_GT(pair.write(known, 0, 64), Errc::would_block);
    EXPECT_TRUE(pair.is_untouched(0, 3 * kBytes));
}

TEST(Grants, of_one_connection_are_of_no_use_to_another) {
    Lending lender;
    const Grant grant = lender.lend();
    Lending other;
    EXPECT_GT(other.write(grant.extents()[0], 0, 8), Errc::would_block);
    EXPECT_TRUE(lender.is_untouched(0, 3 * kBytes));
}

TEST(Grants, give_new_keys_each_time_and_old_ones_stay_dead) {
    Lending pair;
    std::uint32_t last = 0;
    for (int i = 0; i < 300; ++i) {
        Grant grant = pair.lend();
        ASSERT_NE(grant.extents()[0].remote_key, last);
        last = grant.extents()[0].remote_key;
        ASSERT_EQ(pair.write(grant.extents()[0], 0, 8), Errc::ok);
        grant.wait_end(soon());
    }
}

TEST(Grants, keep_the_owner_until_they_have_ended) {
    Lending pair;
    bool gone = false;
    Grant grant = pair.lend(owner_that([&gone] { gone = true; }));
    grant.end();
    grant.end();
    EXPECT_FALSE(gone) << "the queue pair has not said so yet";
    grant.wait_end(soon());
    EXPECT_TRUE(gone);
}

TEST(Grants, that_are_dropped_end_by_polls_of_the_lane) {
    Lending pair;
    bool gone = false;
    pair.lend(owner_that([&gone] { gone = true; }));
    const Deadline deadline = soon();
    while (!gone && !deadline.passed()) (void)pair.receiver->lane().poll();
    EXPECT_TRUE(gone);
}

TEST(Grants, end_with_their_connection_and_outlive_it) {
    Lending pair;
    bool gone = false;
    Grant grant = pair.lend(owner_that([&gone] { gone = true; }));
    pair.receiver.reset();
    EXPECT_TRUE(grant.has_ended());
    EXPECT_TRUE(gone);
    grant.wait_end(soon());
    EXPECT_EQ(grant.extents().size(), 1u);
}

TEST(Grants, end_when_the_peer_breaks_the_connection) {
    Lending pair;
    bool gone = false;
    const Grant grant = pair.lend(owner_that([&gone] { gone = true; }));
    EXPECT_GT(pair.write({1, 8, 0xbad, 0}, 0, 8), Errc::would_block);
    pair.sender.reset();
    const Deadline deadline = soon();
    while (pair.receiver->progress() == Errc::ok && !deadline.passed()) {
    }
    EXPECT_THROW(pair.lend(), Error);
    while (!grant.has_ended() && !deadline.passed()) pair.receiver.reset();
    EXPECT_TRUE(gone);
}

TEST(Grants, reach_over_segments_with_a_key_for_each) {
    Config config = small_config();
    Lending pair(config);
    const std::size_t bytes = 3 * config.receive_arena.segment_bytes;
    auto* target = static_cast<std::byte*>(pair.receiver->receive_arena().allocate(bytes, 4096));
    Grant grant(*pair.receiver, {target, bytes}, Access::remote_write);
    ASSERT_GE(grant.extents().size(), 3u);
    std::size_t sum = 0;
    for (const RemoteExtent& extent : grant.extents()) {
        EXPECT_EQ(extent.address, reinterpret_cast<std::uint64_t>(target + sum));
        EXPECT_EQ(pair.write(extent, 0, 64), Errc::ok);
        EXPECT_EQ(pair.write(extent, static_cast<std::ptrdiff_t>(extent.bytes) - 64, 64), Errc::ok);
        sum += extent.bytes;
    }
    EXPECT_EQ(sum, bytes);
    grant.wait_end(soon());
}

TEST(Grants, find_their_way_through_a_full_send_queue) {
    Config config = small_config();
    config.ring.send_blocks = 64;
    Lending pair(config);
    std::vector<Grant> grants;
    for (int i = 0; i < 100; ++i)
        grants.push_back(Grant::begin(*pair.receiver, pair.middle(), Access::remote_write));
    const Deadline deadline = soon();
    for (const Grant& grant : grants) {
        while (!grant.is_ready() && !deadline.passed()) (void)pair.receiver->progress();
        ASSERT_EQ(pair.write(grant.extents()[0], 0, 8), Errc::ok);
    }
    for (Grant& grant : grants) grant.end();
    for (Grant& grant : grants) grant.wait_end(soon());
}

TEST(Grants, that_end_before_they_were_ready_open_nothing) {
    Config config = small_config();
    config.ring.send_blocks = 64;
    Lending pair(config);
    std::vector<Grant> grants;
    do grants.push_back(Grant::begin(*pair.receiver, pair.middle(), Access::remote_write));
    while (grants.back().is_ready() && grants.size() < 1000);
    const RemoteExtent known = grants.back().extents()[0];
    ASSERT_FALSE(grants.back().is_ready());
    for (Grant& grant : grants) grant.end();
    for (Grant& grant : grants) grant.wait_end(soon());
    EXPECT_GT(pair.write(known, 0, 8), Errc::would_block);
    EXPECT_TRUE(pair.is_untouched(0, 3 * kBytes));
}

TEST(Grants, refuse_memory_outside_of_arenas_and_nothing_at_all) {
    Lending pair;
    std::byte outside[64];
    const auto code = [&](std::span<std::byte> memory, Access access) {
        return error_code_of([&] { Grant(*pair.receiver, memory, access); });
    };
    EXPECT_EQ(code(outside, Access::remote_write), Errc::invalid_argument);
    EXPECT_EQ(code({pair.target, 0}, Access::remote_write), Errc::invalid_argument);
    EXPECT_EQ(code(pair.middle(), Access::local_read), Errc::invalid_argument);
    std::byte* const base = pair.receiver->receive_arena().base();
    const std::size_t populated = pair.receiver->receive_arena().usage().populated_bytes;
    EXPECT_EQ(code({base + populated - 8, 16}, Access::remote_write), Errc::invalid_argument);
    EXPECT_EQ(code(pair.middle(), Access::remote_write), Errc::ok);
}

TEST(Grants, of_the_objects_arena_can_be_lent_too) {
    Lending pair;
    auto* word = static_cast<std::byte*>(pair.receiver->arena().allocate(64, 64));
    std::memset(word, 0, 64);
    const Grant grant(*pair.receiver, {word, 64}, Access::remote_write);
    EXPECT_EQ(pair.write(grant.extents()[0], 0, 64), Errc::ok);
    EXPECT_EQ(std::memcmp(word, pair.source, 64), 0);
}

TEST(Grants, may_be_given_and_ended_in_handlers) {
    Lending pair;
    Grant grant;
    bool waited = true;
    pair.receiver->on(1, [&](Connection& connection, Message&) {
        grant = Grant::begin(connection, pair.middle(), Access::remote_write);
        if (!grant.is_ready()) return;
        (void)connection.try_send(2, std::as_bytes(grant.extents()));
        try {
            grant.wait_end(soon());
        } catch (const Error& error) {
            waited = error.code() != Errc::would_deadlock;
        }
    });
    ASSERT_EQ(pair.sender->try_send(1, {}), Errc::ok);
    const Deadline deadline = soon();
    Message message;
    while (pair.sender->try_receive(message) != Errc::ok && !deadline.passed())
        (void)pair.receiver->lane().poll();
    EXPECT_EQ(message.channel(), 2);
    EXPECT_FALSE(waited);
}

}  // namespace
}  // namespace verbatim::test

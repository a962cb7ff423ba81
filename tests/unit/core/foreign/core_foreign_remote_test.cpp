// Memory outside of arenas as local memory of one-sided operations, and lent to the peer.
#include <malloc.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <verbatim/core/one_sided.hpp>

#include "../remote/core_lent.hpp"
#include "core_foreign.hpp"
#include "sanitized.hpp"

namespace verbatim::test {
namespace {

using Words = std::vector<std::uint64_t>;

// Memory of the peer, and a cache of this side.
struct Remote : Lent<std::uint64_t> {
    explicit Remote(std::size_t words)
        : Lent(words), cache(pair().sender_context), one_sided(connection()) {}
    void write(std::span<const std::uint64_t> from) {
        const Registered lease = cache.acquire(from);
        one_sided.write(lease.local(from), remote.subspan(0, from.size()), soon());
    }
    void read(std::span<std::uint64_t> into) {
        const Registered lease = cache.acquire(into);
        one_sided.read(remote.subspan(0, into.size()), lease.local(into), soon());
    }
    // The peer has these words now.
    bool has(std::span<const std::uint64_t> words) const {
        return std::equal(words.begin(), words.end(), there->begin());
    }

    RegistrationCache cache;
    OneSided one_sided;
};

TEST(ForeignRemote, vectors_are_written_and_read) {
    Remote peer(100000);
    for (const std::size_t count : {1u, 2u, 63u, 5000u, 100000u}) {
        Words words(count), back(count);
        std::iota(words.begin(), words.end(), count);
        peer.write(words);
        EXPECT_TRUE(peer.has(words)) << count;
        peer.read(back);
        EXPECT_EQ(words, back);
    }
    EXPECT_EQ(peer.cache.usage().in_flight, 0u);
}

TEST(ForeignRemote, memory_without_a_lease_is_refused) {
    Remote peer(4);
    Words words(4);
    Operation operation;
    EXPECT_EQ(peer.one_sided.try_read(peer.remote, std::span(words), operation),
              Errc::invalid_argument);
    const Registered lease = peer.cache.acquire(std::span<const std::uint64_t>(words));
    EXPECT_EQ(peer.one_sided.try_read(peer.remote, lease.local(std::span(words)), operation),
              Errc::invalid_argument)
        << "the lease only reads";
    const Words others(4);
    const auto outside = lease.local(std::span<const std::uint64_t>(others));
    EXPECT_EQ(peer.one_sided.try_write(outside, peer.remote, operation), Errc::invalid_argument);
    peer.read(words);  // the connection goes on
}

// The same address, other memory: what the peer gets are the new bytes.
TEST(ForeignRemote, fresh_bytes_are_sent_after_each_change_of_the_memory) {
    constexpr std::size_t kWords = 4 * kPage / 8;
    Remote peer(kWords);
    Pages pages(4);
    const auto words = [&] {
        return std::span(reinterpret_cast<std::uint64_t*>(pages.data()), kWords);
    };
    for (std::uint64_t round = 1; round <= 40; ++round) {
        std::fill(words().begin(), words().end(), round);
        const auto misses = peer.cache.usage().misses;
        peer.write(words());
        ASSERT_TRUE(peer.has(words())) << round;
        ASSERT_EQ(peer.cache.usage().misses, misses + 1);
        peer.read(words());
        std::byte* const at = pages.data();
        if (round % 3 == 0) {
            ASSERT_EQ(madvise(at, pages.bytes(), MADV_DONTNEED), 0);
        } else if (round % 3 == 1) {
            pages.unmap();
            pages = Pages(4, at);
            if (!pages) pages = Pages(4);  // another thread took the place
            ASSERT_TRUE(pages);
        } else {
            ASSERT_TRUE(pages.move(400));
            ASSERT_TRUE(pages.move(4));
            Pages elsewhere(4);
            std::byte* const to = elsewhere.let_go();
            ASSERT_TRUE(pages.move(4, to));
        }
    }
}

TEST(ForeignRemote, fresh_bytes_are_sent_after_free_trim_and_malloc) {
    constexpr std::size_t kBytes = std::size_t{100} << 10, kWords = kBytes / 8;
    Remote peer(kWords);
    for (std::uint64_t round = 0; round < 30; ++round) {
        auto* const memory = static_cast<std::uint64_t*>(malloc(kBytes));
        const std::span words(memory, kWords);
        std::fill(words.begin(), words.end(), round);
        peer.write(words);
        EXPECT_TRUE(peer.has(words)) << round;
        free(memory);
        if (!kSanitized) malloc_trim(0);
    }
}

// More leases than the cache may keep, each with an operation under way.
TEST(ForeignRemote, what_operations_use_is_not_evicted) {
    constexpr std::size_t kCount = 64, kWords = kPage / 8;
    Remote peer(kWords);
    std::iota(peer.there->begin(), peer.there->end(), 1000);
    RegistrationOptions options = small_config().foreign;
    options.max_bytes = 8 * kPage;
    RegistrationCache cache(peer.pair().sender_context, options);
    const Pages pages(2 * kCount);
    std::vector<std::pair<Registered, Operation>> flying;
    const auto land_first = [&] {
        ASSERT_EQ(peer.wait_for(peer.one_sided, flying.front().second), Errc::ok);
        flying.erase(flying.begin());
    };
    for (std::size_t i = 0; i < kCount; ++i) {
        const std::span words(reinterpret_cast<std::uint64_t*>(pages.page(2 * i)), kWords);
        Registered lease;
        while (error_code_of([&] { lease = cache.acquire(words); }) == Errc::out_of_memory)
            land_first();
        Operation operation;
        while (peer.one_sided.try_read(peer.remote, lease.local(words), operation) ==
               Errc::would_block)
            (void)peer.connection().progress();
        flying.emplace_back(std::move(lease), operation);
    }
    while (!flying.empty()) land_first();
    for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(std::memcmp(pages.page(2 * i), peer.there->data(), kPage), 0) << i;
    EXPECT_EQ(cache.usage().in_flight, 0u);
    EXPECT_LE(cache.usage().bytes, options.max_bytes);
}

// Lent by the side that made the cache, used by the other.
class LentForeign : public ::testing::Test {
  protected:
    // Runs `use` while the lender polls.
    template <class Use>
    void while_polled(Use use) {
        std::atomic<bool> stop{false};
        std::thread polls([&] {
            while (!stop) (void)pair_.receiver->progress();
        });
        use();
        stop = true;
        polls.join();
    }
    ConnectedPair pair_;
    RegistrationCache cache_{pair_.receiver_context};
};

TEST_F(LentForeign, vector_is_lent_and_its_lease_kept_until_the_end) {
    Words words(3000, 7);
    Local<std::uint64_t> here(pair_.sender->arena(), words.size());
    Registered lease = cache_.acquire(std::span(words));
    const auto alive = lease.region()->alive();
    Grant grant(*pair_.receiver, std::move(lease), std::as_writable_bytes(std::span(words)), kAll);
    ASSERT_EQ(grant.extents().size(), 1u);
    const RemoteSpan<std::uint64_t> remote(grant.extents()[0]);
    pair_.receiver->send_message(1, remote.bytes(), {}, soon());  // its key works behind that
    (void)pair_.sender->receive_message(soon());
    while_polled([&] {
        OneSided one_sided(*pair_.sender);
        one_sided.read(remote, *here, soon());
        EXPECT_EQ(here[2999], 7u);
        here[0] = 99;
        one_sided.write(here->first(1), remote[5], soon());
    });
    EXPECT_EQ(words[5], 99u);
    EXPECT_EQ(words[4], 7u);
    EXPECT_EQ(cache_.usage().in_flight, 1u);
    cache_.clear();
    EXPECT_TRUE(is_alive(alive));
    grant.wait_end(soon());
    EXPECT_EQ(cache_.usage().in_flight, 0u);
}

TEST_F(LentForeign, bytes_outside_of_the_lease_are_not_lent) {
    Words words(3000);
    const auto all = std::as_writable_bytes(std::span(words));
    const auto lend = [&](Access access, std::span<std::byte> memory) {
        return error_code_of([&] {
            (void)Grant::begin(*pair_.receiver, cache_.acquire(words.data(), 800, access), memory,
                               kAll);
        });
    };
    EXPECT_EQ(lend(RegistrationCache::kLendable, all.first(801)), Errc::invalid_argument);
    EXPECT_EQ(lend(RegistrationCache::kLendable, {}), Errc::invalid_argument);
    EXPECT_EQ(lend(Access::local_write, all.first(800)), Errc::invalid_argument) << "no windows";
    EXPECT_EQ(lend(RegistrationCache::kLendable, all.first(800)), Errc::ok);
}

// The peer reaches what was lent, not the rest of the page.
TEST_F(LentForeign, peer_reaches_nothing_beside_it) {
    Words words(100, 1);
    Local<std::uint64_t> here(pair_.sender->arena(), 1);
    Grant grant(*pair_.receiver, cache_.acquire(std::span(words)),
                std::as_writable_bytes(std::span(words).first(10)), kAll);
    RemoteExtent beyond = grant.extents()[0];
    beyond.address += 80, beyond.bytes = 8;
    while_polled([&] {
        OneSided one_sided(*pair_.sender);
        Operation operation;
        const RemoteSpan<std::uint64_t> word(beyond);
        ASSERT_EQ(one_sided.try_write(here->first(1), word, operation), Errc::ok);
        const Deadline deadline = soon();
        Errc error = Errc::would_block;
        while ((error = one_sided.result(operation)) == Errc::would_block && !deadline.passed())
            (void)pair_.sender->progress();
        EXPECT_TRUE(is_refusal(error)) << static_cast<int>(error);
    });
    EXPECT_EQ(words[10], 1u);
}

}  // namespace
}  // namespace verbatim::test

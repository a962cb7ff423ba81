// The claims of a walk: what they know of arena and heap memory, and what becomes of their own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include <verbatim/objects/graph/claims.hpp>

#include "sanitized.hpp"

namespace verbatim::objects {
namespace {

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

// Blocks of 48 bytes, each at its place in an image.
void expect_known(Claims& claims, const std::vector<std::byte*>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        std::uint64_t offset = 0;
        ASSERT_TRUE(claims.find(address_of(blocks[i]) + 20, offset)) << i;
        ASSERT_EQ(offset, i * 64 + 20);
    }
}
void claim_all(Claims& claims, const std::vector<std::byte*>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        ASSERT_EQ(claims.look_up(address_of(blocks[i]), 48).found, Claims::Found::free);
        claims.claim(address_of(blocks[i]), 48, i * 64);
    }
}

TEST(Claims, of_arena_and_heap_are_found_until_they_are_cleared) {
    Arena arena(ArenaOptions{});
    std::vector<std::byte> heap(200'000);
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 3000; ++i) {
        blocks.push_back(static_cast<std::byte*>(arena.allocate(48, 16)));
        const std::size_t at = (address_of(heap.data()) + 15) / 16 * 16 - address_of(heap.data());
        blocks.push_back(heap.data() + at + static_cast<std::size_t>(i) * 64);
    }
    Claims claims(arena);
    for (int round = 0; round < 3; ++round) {
        claim_all(claims, blocks);
        expect_known(claims, blocks);
        claims.clear();
        std::uint64_t offset = 0;
        for (const std::byte* const block : blocks)
            ASSERT_FALSE(claims.find(address_of(block), offset));
    }
}

TEST(Claims, of_freed_arena_memory_are_refused_as_it_is_at_the_first_look) {
    Arena arena(ArenaOptions{});
    void* const kept = arena.allocate(48, 16);
    void* const freed = arena.allocate(48, 16);
    arena.deallocate(freed, 48, 16);
    Claims claims(arena);
    EXPECT_EQ(claims.look_up(address_of(freed), 48).found, Claims::Found::freed);
    claims.claim(address_of(kept), 48, 0);
    EXPECT_EQ(claims.word_at(address_of(freed)), ClaimWords::kFreed);
    claims.clear();
    void* const again = arena.allocate(48, 16);
    ASSERT_EQ(again, freed);
    claims.claim(address_of(kept), 48, 0);
    EXPECT_EQ(claims.word_at(address_of(again)), Claims::kFree);
}

// The words that claims write at the first granule of single objects.
constexpr std::uint64_t kLastTagged = (std::uint64_t{1} << 32) - 4 * kImageGranule;
constexpr std::uint64_t kLastPlace = kMaxImageBytes - kImageGranule;

TEST(ClaimWords, keep_the_place_whatever_type_they_are_tagged_with) {
    for (std::uint64_t number = 1; number < 20; ++number)
        for (const std::uint64_t offset :
             {std::uint64_t{0}, std::uint64_t{4096}, kLastTagged, kLastTagged + kImageGranule,
              std::uint64_t{1} << 32, std::uint64_t{1} << 34, kLastPlace}) {
            const auto tag = ClaimWords::tag_of(number);
            const auto word = ClaimWords::tagged(ClaimWords::plain(offset), tag);
            EXPECT_TRUE(ClaimWords::names_place(word)) << number << " at " << offset;
            EXPECT_EQ(ClaimWords::offset_of(word, 0), offset) << number;
            EXPECT_EQ(ClaimWords::offset_of(word, 0x1008), offset + 8) << number;
        }
}
TEST(ClaimWords, say_the_start_of_an_object_of_their_own_type_alone) {
    constexpr auto kFirst = ClaimWords::tag_of(1), kLast = ClaimWords::tag_of(7);
    static_assert(ClaimWords::tag_of(8) == 0 && kFirst != kLast);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4096}, kLastTagged}) {
        const auto plain = ClaimWords::plain(offset);
        EXPECT_TRUE(ClaimWords::says_start_of<kFirst>(ClaimWords::tagged(plain, kFirst)));
        EXPECT_TRUE(ClaimWords::says_start_of<kLast>(ClaimWords::tagged(plain, kLast)));
        EXPECT_FALSE(ClaimWords::says_start_of<kFirst>(ClaimWords::tagged(plain, kLast)));
        EXPECT_FALSE(ClaimWords::says_start_of<kLast>(ClaimWords::tagged(plain, kFirst)));
        EXPECT_FALSE(ClaimWords::says_start_of<0>(plain));
    }
}
// Those that lie in images of more than 4 GiB, and words that name no place.
TEST(ClaimWords, without_a_tag_say_no_start) {
    constexpr auto check =
        []<ClaimWords::Word... Tag>(std::integer_sequence<ClaimWords::Word, Tag...>) {
        for (const std::uint64_t offset :
             {std::uint64_t{0}, kLastTagged, kLastTagged + kImageGranule, std::uint64_t{1} << 34,
              kLastPlace})
            EXPECT_FALSE((
                ClaimWords::says_start_of<ClaimWords::tag_of(Tag + 1)>(ClaimWords::plain(offset)) ||
                ...))
                << offset;
        for (const auto word : {ClaimWords::kFree, ClaimWords::kShared, ClaimWords::kFreed})
            EXPECT_FALSE((ClaimWords::says_start_of<ClaimWords::tag_of(Tag + 1)>(word) || ...));
    };
    check(std::make_integer_sequence<ClaimWords::Word, 9>{});
}
TEST(Claims, tag_the_first_granule_of_an_object_and_no_other) {
    Arena arena(ArenaOptions{});
    auto* const block = static_cast<std::byte*>(arena.allocate(48, 16));
    Claims claims(arena);
    constexpr auto kTag = ClaimWords::tag_of(3);
    claims.claim(address_of(block), 48, 64, kTag);
    EXPECT_TRUE(ClaimWords::says_start_of<kTag>(claims.word_at(address_of(block))));
    EXPECT_FALSE(ClaimWords::says_start_of<kTag>(claims.word_at(address_of(block) + 16)));
    std::uint64_t offset = 0;
    ASSERT_TRUE(claims.find(address_of(block) + 40, offset));
    EXPECT_EQ(offset, 64u + 40);
}

// Of addresses, and of memory.
std::pair<std::uint64_t, std::uint64_t> process_bytes() {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    std::ifstream file("/proc/self/statm");
    std::uint64_t all = 0, resident = 0;
    file >> all >> resident;
    return {all * page, resident * page};
}

// Graphs that wander through a large arena: each claims another part of it.
TEST(Claims, of_a_large_arena_do_not_keep_the_memory_of_all_of_it) {
    if (test::kSanitized)
        GTEST_SKIP() << "a sanitizer's shadow counts, too: it runs in the release build";
    constexpr std::uint64_t kPart = std::uint64_t{4} << 20, kParts = 64;
    Arena arena({.max_bytes = 2 * kPart * kParts});
    auto* const memory = static_cast<std::byte*>(arena.allocate(kPart * kParts, 4096));
    Claims claims(arena);
    const std::uint64_t before = process_bytes().second;
    for (std::uint64_t part = 0; part < kParts; ++part) {
        for (std::uint64_t at = 0; at < kPart; at += 4096)
            claims.claim(address_of(memory + part * kPart + at), 48, at);
        claims.clear();
    }
    // Words for 256 MiB are 64 MiB.
    EXPECT_LT(process_bytes().second, before + (std::uint64_t{24} << 20));
    arena.deallocate(memory, kPart * kParts, 4096);
}

TEST(Claims, work_where_the_system_refuses_addresses_for_a_word_of_each_granule) {
    if (test::kSanitized)
        GTEST_SKIP() << "sanitizers need the addresses: it runs in the release build";
    Arena arena({.max_bytes = std::size_t{64} << 30});
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 1000; ++i)
        blocks.push_back(static_cast<std::byte*>(arena.allocate(48, 16)));
    const pid_t child = fork();
    if (child == 0) {
        const rlimit limit{process_bytes().first + (std::uint64_t{1} << 30), RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        Claims claims(arena);
        claims.claim(address_of(blocks[0]), 48, 0);
        if (claims.arena_words().words != nullptr) _exit(2);
        claims.clear();
        claim_all(claims, blocks);
        expect_known(claims, blocks);
        _exit(testing::Test::HasFailure() ? 3 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace verbatim::objects

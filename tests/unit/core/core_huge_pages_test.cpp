// Arenas on huge pages that the test reserves, which takes root and memory; else it is skipped, and
// says why. Not beside other tests: their arenas take what is free.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include <verbatim/core/prepared.hpp>

#include "core_fault.hpp"
#include "core_messages.hpp"
#include "reserved_pages.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20, kGi = std::size_t{1} << 30;

#define RESERVE_OR_SKIP(pages, page_bytes, wanted)                                \
    ReservedPages pages(page_bytes, wanted);                                      \
    if (!pages.suffices())                                                        \
    GTEST_SKIP() << "cannot reserve " << (wanted) << " pages of " << (page_bytes) \
                 << " bytes here (root and memory)"

// KernelPageSize of the mapping that holds `at`, in bytes.
std::size_t page_size_at(const void* at) {
    std::ifstream maps("/proc/self/smaps");
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    bool here = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long first = 0, last = 0;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2)
            here = first <= address && address < last;
        unsigned long kib = 0;
        if (here && std::sscanf(line.c_str(), "KernelPageSize: %lu kB", &kib) == 1)
            return kib * 1024;
    }
    return 0;
}

ArenaOptions arena_of(PageChoice pages, std::size_t segment, std::size_t most) {
    return {.name = "test", .segment_bytes = segment, .max_bytes = most, .pages = pages};
}

TEST(HugePages, of_2_mib_back_an_arena_and_go_back_with_it) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 8);
    const std::uint64_t before = pages.free();
    {
        Arena arena(arena_of(PageChoice::huge_2m, 4 * kMi, 64 * kMi));
        void* const block = arena.allocate(6 * kMi, 64);
        std::memset(block, 0x5a, 6 * kMi);
        EXPECT_EQ(page_size_at(block), 2 * kMi);
        EXPECT_EQ(arena.usage().page_bytes, 2 * kMi);
        EXPECT_EQ(before - pages.free(), 4u);
        arena.deallocate(block, 6 * kMi, 64);
    }
    EXPECT_EQ(pages.free(), before);
}

TEST(HugePages, of_1_gib_back_an_arena) {
    RESERVE_OR_SKIP(pages, kGi, 1);
    Arena arena(arena_of(PageChoice::huge_1g, kGi, kGi));
    auto* const words = static_cast<std::uint64_t*>(arena.allocate(kGi, 64));
    words[0] = words[kGi / 8 - 1] = 7;
    EXPECT_EQ(page_size_at(words), kGi);
    EXPECT_EQ(arena.usage().page_bytes, kGi);
}

TEST(HugePages, are_taken_while_there_are_any_and_small_ones_follow) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 2);
    pages.keep(2);
    if (pages.free() != 2) GTEST_SKIP() << "others have reserved pages, too";
    CapturedLog log;
    Arena arena(arena_of(PageChoice::automatic, 4 * kMi, 64 * kMi));
    void* const first = arena.allocate(4 * kMi, 64);
    void* const second = arena.allocate(4 * kMi, 64);
    std::memset(first, 1, 4 * kMi), std::memset(second, 2, 4 * kMi);
    EXPECT_EQ(page_size_at(first), 2 * kMi);
    EXPECT_EQ(page_size_at(second), 4096u);
    EXPECT_EQ(count_of(log.text(), "sysctl -w vm.nr_hugepages="), 1u) << log.text();
}

// Each sees them free, and one gets them.
TEST(HugePages, that_two_processes_find_at_the_same_time_serve_one_and_do_not_stop_the_other) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 4);
    const auto take_often = [] {
        CapturedLog log;
        for (int i = 0; i < 300; ++i) {
            Arena arena(arena_of(PageChoice::automatic, 8 * kMi, 64 * kMi));
            arena.deallocate(arena.allocate(kMi, 64), kMi, 64);
        }
    };
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(error_code_of(take_often) == Errc::ok ? 0 : 1);
    EXPECT_EQ(error_code_of(take_often), Errc::ok);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(HugePages, that_are_demanded_and_missing_leave_the_arena_as_it_was) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 2);
    if (pages.free() != 2) GTEST_SKIP() << "others have reserved pages, too";
    Arena arena(arena_of(PageChoice::huge_2m, 4 * kMi, 64 * kMi));
    void* const block = arena.allocate(4 * kMi, 64);
    EXPECT_EQ(error_code_of([&] { (void)arena.allocate(kMi, 64); }), Errc::out_of_memory);
    EXPECT_EQ(arena.usage().populated_bytes, 4 * kMi);
    arena.deallocate(block, 4 * kMi, 64);
    EXPECT_NO_THROW(arena.deallocate(arena.allocate(kMi, 64), kMi, 64));
}

// Messages, grants and one-sided operations of two contexts.
TEST(HugePages, carry_what_connections_send_and_lend) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 16);
    Config config = small_config();
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena}) {
        arena->pages = PageChoice::huge_2m;
        arena->segment_bytes = 4 * kMi;
        arena->max_bytes = 64 * kMi;
    }
    ConnectedPair pair(config, config);
    const std::size_t words = kMi / 8;
    auto* const there = static_cast<std::uint64_t*>(pair.receiver->arena().allocate(kMi, 64));
    auto* const here = static_cast<std::uint64_t*>(pair.sender->arena().allocate(kMi, 64));
    EXPECT_EQ(page_size_at(there), 2 * kMi);
    for (std::size_t i = 0; i < words; ++i) there[i] = i;
    const Grant grant(*pair.receiver, std::as_writable_bytes(std::span(there, words)),
                      Access::remote_read | Access::remote_write);
    const RemoteSpan<std::uint64_t> remote(grant.extents()[0]);
    PreparedRead<std::uint64_t> read(OneSided(*pair.sender), remote, std::span(here, words));
    ASSERT_EQ(read.execute(), Errc::ok);
    const Deadline deadline = soon();
    while (read.result() == Errc::would_block && !deadline.passed())
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    EXPECT_EQ(read.result(), Errc::ok);
    EXPECT_EQ(std::memcmp(here, there, kMi), 0);
    EXPECT_EQ(pair.sender->try_send(1, bytes_of("on huge pages")), Errc::ok);
    EXPECT_EQ(text_of(pair.receiver->receive_message(soon())), "on huge pages");
}

TEST(HugePages, are_not_there_in_a_forked_child) {
    RESERVE_OR_SKIP(pages, 2 * kMi, 2);
    Arena arena(arena_of(PageChoice::huge_2m, 4 * kMi, 4 * kMi));
    void* const block = arena.allocate(kMi, 64);
    ASSERT_EQ(page_size_at(block), 2 * kMi);
    const pid_t child = fork();
    if (child == 0) _exit(page_size_at(block) == 0 ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(Numa, binds_an_arena_to_the_node_that_was_asked_for) {
    ArenaOptions options = arena_of(PageChoice::base_4k, kMi, kMi);
    options.numa_node = 0;
    Arena arena(options);
    void* const block = arena.allocate(4096, 64);
    std::memset(block, 1, 4096);
    int node = -1, mode = -1;
    constexpr int kNodeOf = 1 << 0 | 1 << 1;  // MPOL_F_NODE | MPOL_F_ADDR
    ASSERT_EQ(syscall(SYS_get_mempolicy, &node, nullptr, 0, block, kNodeOf), 0);
    EXPECT_EQ(node, 0);
    ASSERT_EQ(syscall(SYS_get_mempolicy, &mode, nullptr, 0, block, 1 << 1), 0);
    EXPECT_EQ(mode, 2) << "MPOL_BIND";
}

}  // namespace
}  // namespace verbatim::test

// Registered memory that lies in a file which peers map: the program notices nothing of it, and
// what is not ordinary memory of a program with one thread stays as it is.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"
#include "maps.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kPage = 4096;
constexpr unsigned kWritable =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::byte pattern(std::size_t i) { return static_cast<std::byte>((i * 7 + i / 4093) & 0xff); }

// Pages that mmap() gave, filled.
class Pages {
  public:
    explicit Pages(std::size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
        : bytes_(pages * kPage),
          data_(static_cast<std::byte*>(
              mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0))) {
        for (std::size_t i = 0; i < bytes_; ++i) data_[i] = pattern(i);
    }
    ~Pages() { munmap(data_, bytes_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    std::byte* at(std::size_t page) const { return data_ + page * kPage; }
    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    bool is_as_filled() const {
        for (std::size_t i = 0; i < bytes_; ++i)
            if (data_[i] != pattern(i)) return false;
        return true;
    }
    // Which pages are shared, from the first one on, as ones and zeros.
    std::string shared() const {
        std::string text;
        for (std::size_t i = 0; i < bytes_; i += kPage) text += is_shared(data_ + i) ? '1' : '0';
        return text;
    }

  private:
    std::size_t bytes_;
    std::byte* data_;
};

struct Sharing : testing::Test {
    Sharing() { setenv("VERBATIM_SOFTNIC_SHARE", "1", 1); }
    ~Sharing() override { unsetenv("VERBATIM_SOFTNIC_SHARE"); }
    Region registered(void* start, std::size_t bytes, unsigned access = kWritable) const {
        return Region(good(ibv_reg_mr(domain.get(), start, bytes, access), "ibv_reg_mr"));
    }
    Context context = open_device();
    Domain domain{good(ibv_alloc_pd(context.get()), "ibv_alloc_pd")};
};

// Sanitizers have threads and memory of their own kinds; and on a very busy machine the device's
// threads may not come to rest in time.
bool can_share(const Sharing& test) {
    for (int tries = 0; tries < 5; ++tries) {
        const Pages pages(16);
        const Region region = test.registered(pages.data(), pages.bytes());
        if (is_shared(pages.data())) return true;
    }
    return false;
}
#define NEEDS_SHARING()    \
    if (!can_share(*this)) \
    GTEST_SKIP() << "nothing is shared in this build: runs without sanitizers"

TEST_F(Sharing, pages_are_shared_as_long_as_they_are_registered_and_keep_their_contents) {
    NEEDS_SHARING();
    const Pages pages(20);
    Region region = registered(pages.at(3) + 1000, 10 * kPage);
    EXPECT_EQ(pages.shared(), "00011111111111000000");
    EXPECT_TRUE(pages.is_as_filled());
    std::fill_n(pages.at(4), 100, std::byte{9});
    region.reset();
    EXPECT_EQ(pages.shared(), std::string(20, '0'));
    EXPECT_EQ(pages.at(4)[99], std::byte{9});
    std::generate_n(pages.at(4), 100, [i = 4 * kPage]() mutable { return pattern(i++); });
    EXPECT_TRUE(pages.is_as_filled());
    // One mapping as before, and anonymous: what is given back is zeros.
    EXPECT_EQ(mapping_at(pages.at(0)), mapping_at(pages.at(19)));
    ASSERT_EQ(madvise(pages.at(2), 10 * kPage, MADV_DONTNEED), 0);
    EXPECT_EQ(pages.at(5)[7], std::byte{0});
    EXPECT_EQ(pages.at(13)[7], pattern(13 * kPage + 7));
}

TEST_F(Sharing, a_page_is_enough_where_nothing_else_lies_on_it) {
    NEEDS_SHARING();
    const Pages pages(3);
    const Region region = registered(pages.at(1), kPage);
    EXPECT_EQ(pages.shared(), "010");
}

TEST_F(Sharing, the_heap_is_shared_and_goes_on_as_a_heap) {
    NEEDS_SHARING();
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    constexpr std::size_t kBytes = 200000;
    for (int round = 0; round < 3; ++round) {
        auto* memory = static_cast<std::byte*>(std::malloc(kBytes));
        void* const neighbour = std::malloc(100);
        for (std::size_t i = 0; i < kBytes; ++i) memory[i] = pattern(i);
        Region region = registered(memory, kBytes);
        EXPECT_TRUE(is_shared(memory + kBytes / 2));
        // Beside it, meanwhile.
        void* const another = std::malloc(5000);
        std::free(neighbour);
        region.reset();
        EXPECT_FALSE(is_shared(memory + kBytes / 2));
        memory = static_cast<std::byte*>(std::realloc(memory, 2 * kBytes));
        for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(memory[i], pattern(i)) << i;
        std::free(memory);
        std::free(another);
        auto* const zeros = static_cast<std::byte*>(std::calloc(1, 3 * kBytes));
        EXPECT_TRUE(
            std::all_of(zeros, zeros + 3 * kBytes, [](std::byte b) { return b == std::byte{}; }));
        std::free(zeros);
        malloc_trim(0);
    }
}

TEST_F(Sharing, overlapping_regions_share_what_one_of_them_has) {
    NEEDS_SHARING();
    const Pages pages(32);
    Region first = registered(pages.at(0), 16 * kPage),
           second = registered(pages.at(8), 16 * kPage),
           again = registered(pages.at(8), 16 * kPage);
    EXPECT_EQ(pages.shared(), std::string(24, '1') + std::string(8, '0'));
    first.reset();
    EXPECT_EQ(pages.shared(), std::string(8, '0') + std::string(16, '1') + std::string(8, '0'));
    second.reset();
    EXPECT_EQ(pages.shared(), std::string(8, '0') + std::string(16, '1') + std::string(8, '0'));
    again.reset();
    EXPECT_EQ(pages.shared(), std::string(32, '0'));
    EXPECT_TRUE(pages.is_as_filled());
}

TEST_F(Sharing, a_region_that_is_registered_again_shares_its_new_place) {
    NEEDS_SHARING();
    const Pages pages(32);
    const Region region = registered(pages.at(0), 16 * kPage);
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.at(10),
                           16 * kPage, 0),
              0);
    EXPECT_EQ(pages.shared(), std::string(10, '0') + std::string(16, '1') + std::string(6, '0'));
    EXPECT_TRUE(pages.is_as_filled());
}

TEST_F(Sharing, regions_that_are_small_huge_or_on_demand_stay_private) {
    const Pages pages(32), many((std::size_t{64} << 20) / kPage + 1);
    const Region small = registered(pages.data() + 64, 7 * kPage),
                 smaller = registered(pages.at(30), kPage - 1);
    const Region on_demand = registered(pages.at(10), 16 * kPage, kWritable | IBV_ACCESS_ON_DEMAND);
    EXPECT_EQ(pages.shared(), std::string(32, '0'));
    const Region huge = registered(many.data(), many.bytes());
    EXPECT_FALSE(is_shared(many.data()));
}

TEST_F(Sharing, memory_of_another_kind_stays_as_it_is) {
    const Pages shared(16, MAP_SHARED | MAP_ANONYMOUS), locked(16), guarded(16), advised(16);
    ASSERT_EQ(mprotect(guarded.at(8), kPage, PROT_READ), 0);
    ASSERT_EQ(madvise(advised.at(8), kPage, MADV_WIPEONFORK), 0);
    // Sanitizers have an mlock() that does nothing, and stacks of their own.
    const bool locks = syscall(SYS_mlock, locked.at(8), kPage) == 0;
    void* const stack = reinterpret_cast<void*>(
        reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(kPage - 1));
    const auto stays = [&](void* start, std::size_t pages = 16) {
        const std::string before = mapping_at(start);
        const Region region = registered(start, pages * kPage, 0);
        return mapping_at(start) == before;
    };
    EXPECT_TRUE(stays(shared.data()));
    EXPECT_TRUE(stays(guarded.data()));
    EXPECT_TRUE(stays(advised.data()));
    EXPECT_TRUE(stays(stack, 1));
    EXPECT_TRUE(!locks || stays(locked.data()));
}

TEST_F(Sharing, memory_that_a_private_region_reaches_stays_private) {
    const Pages pages(32);
    const Region small = registered(pages.at(4), 100);
    const Region large = registered(pages.at(0), 16 * kPage);
    EXPECT_EQ(pages.shared(), std::string(32, '0'));
}

TEST_F(Sharing, a_program_with_threads_keeps_its_pages_as_they_are) {
    NEEDS_SHARING();
    const Pages pages(32);
    Region before = registered(pages.at(0), 16 * kPage);
    std::atomic<bool> stop{false};
    std::thread thread([&] { stop.wait(false); });
    const Region during = registered(pages.at(16), 16 * kPage);
    EXPECT_EQ(pages.shared(), std::string(16, '1') + std::string(16, '0'));
    // Whose contents somebody may be writing.
    before.reset();
    EXPECT_EQ(pages.shared(), std::string(16, '1') + std::string(16, '0'));
    stop = true;
    stop.notify_all();
    thread.join();
    before = registered(pages.at(0), 16 * kPage);
    EXPECT_EQ(pages.shared(), std::string(16, '1') + std::string(16, '0'));
    before.reset();
    EXPECT_EQ(pages.shared(), std::string(32, '0'));
    EXPECT_TRUE(pages.is_as_filled());
}

TEST_F(Sharing, advice_stays_with_the_pages) {
    NEEDS_SHARING();
    const Pages pages(32);
    ASSERT_EQ(madvise(pages.at(4), 4 * kPage, MADV_DONTFORK), 0);
    const auto forked = [&](std::size_t page) {
        return mapping_at(pages.at(page), true).find(" dc ") == std::string::npos;
    };
    Region region = registered(pages.at(0), 16 * kPage);
    EXPECT_TRUE(is_shared(pages.at(4)));
    EXPECT_TRUE(forked(3) && !forked(4) && !forked(7) && forked(8));
    region.reset();
    EXPECT_FALSE(is_shared(pages.at(4)));
    EXPECT_TRUE(forked(3) && !forked(4) && !forked(7) && forked(8));
}

// What the program has mapped there since is its business.
TEST_F(Sharing, memory_that_was_mapped_anew_is_left_alone) {
    NEEDS_SHARING();
    const Pages pages(32);
    Region region = registered(pages.at(0), 16 * kPage);
    ASSERT_EQ(mmap(pages.at(0), 16 * kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              pages.at(0));
    pages.at(0)[5] = std::byte{3};
    region.reset();
    EXPECT_EQ(pages.at(0)[5], std::byte{3});
    EXPECT_EQ(pages.at(8)[5], std::byte{0});
    region = registered(pages.at(0), 16 * kPage);
    EXPECT_TRUE(is_shared(pages.at(0)));
    EXPECT_EQ(pages.at(0)[5], std::byte{3});
}

// The file has one place for each address.
TEST_F(Sharing, pages_that_moved_while_registered_keep_their_contents) {
    NEEDS_SHARING();
    Pages pages(32);
    constexpr std::size_t kBytes = 16 * kPage;
    const Region region = registered(pages.at(0), kBytes);
    void* const moved =
        mremap(pages.at(0), kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.at(16));
    ASSERT_EQ(moved, pages.at(16));
    ASSERT_EQ(mmap(pages.at(0), kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              pages.at(0));
    const Region again = registered(pages.at(0), kBytes);
    EXPECT_FALSE(is_shared(pages.at(0)));
    EXPECT_EQ(pages.at(16)[5], pattern(5));
}

TEST_F(Sharing, nothing_is_shared_that_nobody_asked_for) {
    NEEDS_SHARING();
    const Pages pages(16);
    for (const char* const wanted : {"0", ""}) {
        setenv("VERBATIM_SOFTNIC_SHARE", wanted, 1);
        if (*wanted == '\0') unsetenv("VERBATIM_SOFTNIC_SHARE");
        const Region region = registered(pages.data(), pages.bytes());
        EXPECT_FALSE(is_shared(pages.data())) << wanted;
    }
}

TEST_F(Sharing, a_limit_of_file_sizes_is_kept) {
    Child child([] {
        const rlimit limit{1 << 30, 1 << 30};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
        const Context own = open_device();
        const Domain its(good(ibv_alloc_pd(own.get()), "ibv_alloc_pd"));
        const Pages pages(16);
        const Region region(
            good(ibv_reg_mr(its.get(), pages.data(), pages.bytes(), kWritable), "ibv_reg_mr"));
        return is_shared(pages.data()) ? 3 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
}

// Each look costs time: a program that registers memory for every message goes on without.
TEST_F(Sharing, only_so_many_pages_are_exchanged_in_a_short_time) {
    NEEDS_SHARING();
    const Pages pages(16);
    bool shared = true;
    const auto start = std::chrono::steady_clock::now();
    int rounds = 0;
    for (; shared && rounds < 2000; ++rounds) {
        const Region region = registered(pages.data(), pages.bytes());
        shared = is_shared(pages.data());
    }
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_FALSE(shared);
    EXPECT_LE(rounds, 129 + took / std::chrono::milliseconds(100));
    EXPECT_TRUE(pages.is_as_filled());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!shared && std::chrono::steady_clock::now() < deadline) {
        const Region region = registered(pages.data(), pages.bytes());
        shared = is_shared(pages.data());
    }
    EXPECT_TRUE(shared);
}

}  // namespace
}  // namespace verbatim::interop

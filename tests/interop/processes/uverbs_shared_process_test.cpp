// Registered memory that peers map, seen from other processes: peers that write and read there,
// children that were forked.
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "../uverbs/place.hpp"
#include "child_process.hpp"
#include "maps.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kPage = 4096, kBytes = 64 * kPage;
constexpr unsigned kAnything =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;

std::byte* new_pages() {
    void* const data =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::runtime_error("mmap");
    return static_cast<std::byte*>(data);
}

bool all_are(const std::byte* data, std::size_t bytes, int value) {
    return std::all_of(data, data + bytes, [&](std::byte b) { return b == std::byte(value); });
}

struct SharedProcesses : testing::Test {
    SharedProcesses() {
        setenv("VERBATIM_SOFTNIC_SHARE", "1", 1);
        EXPECT_EQ(pipe(to_child) | pipe(to_parent), 0);
    }
    ~SharedProcesses() override {
        for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
    }

    // The child's part: connected with the parent, with memory for it, which is registered only
    // then.
    struct Target {
        explicit Target(SharedProcesses& test) : context(open_device()), side(context.get()) {
            tell(test.to_parent[1], place_of(side));
            connect(side.pair.get(), take<Place>(test.to_child[0]).number);
            region.reset(
                good(ibv_reg_mr(side.domain.get(), data, kBytes, kAnything), "ibv_reg_mr"));
            tell(test.to_parent[1], Place{is_shared(data) ? 1u : 0u, region->rkey,
                                          reinterpret_cast<std::uint64_t>(data)});
        }
        std::byte* data = new_pages();
        Context context;
        Side side;
        Region region;
    };
    // The parent's.
    struct Writer {
        explicit Writer(SharedProcesses& test) : context(open_device()), side(context.get()) {
            const auto peer = take<Place>(test.to_parent[0]);
            tell(test.to_child[1], place_of(side));
            connect(side.pair.get(), peer.number);
            place = take<Place>(test.to_parent[0]);
            there = reinterpret_cast<std::byte*>(place.address);
        }
        ibv_wc_status write(std::size_t at, std::uint32_t bytes, std::uint32_t key) {
            side.request(IBV_WR_RDMA_WRITE, 0, bytes).to(there + at, key).post(side.pair.get());
            return side.poll().status;
        }
        ibv_wc_status read(std::size_t at, std::uint32_t bytes) {
            side.request(IBV_WR_RDMA_READ, 0, bytes)
                .to(there + at, place.key)
                .post(side.pair.get());
            return side.poll().status;
        }
        bool shared() const { return place.number == 1; }
        Context context;
        Side side;
        Place place;
        std::byte* there;
    };

    int to_child[2], to_parent[2];
};

TEST_F(SharedProcesses, what_was_registered_after_ibv_fork_init_is_not_in_the_child) {
    // In a process of its own: it holds for all that follows. And the first test: it must come
    // before the first registration.
    Child program([&] {
        if (ibv_fork_init() != 0) return 2;
        const Context context = open_device();
        const Domain domain(good(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
        std::byte* const data = new_pages();
        std::memset(data, 1, kBytes);
        Region region(good(ibv_reg_mr(domain.get(), data, kBytes / 2, kAnything), "ibv_reg_mr"));
        Child child([&] {
            return mapping_at(data).empty() && all_are(data + kBytes / 2, kBytes / 2, 1) ? 0 : 3;
        });
        if (const int status = child.wait(); status != 0) return status;
        region.reset();
        Child second([&] { return all_are(data, kBytes, 1) ? 0 : 4; });
        if (const int status = second.wait(); status != 0) return status;
        return all_are(data, kBytes, 1) ? 0 : 5;
    });
    EXPECT_EQ(program.wait(), 0);
}

TEST_F(SharedProcesses, a_peer_writes_and_reads_by_its_own_mapping) {
    Child child([&] {
        const Target target(*this);
        take<char>(to_child[0]);
        if (!all_are(target.data + 5, 100001, 3) || target.data[4] != std::byte{} ||
            target.data[100006] != std::byte{})
            return 2;
        std::memset(target.data, 8, kBytes);
        tell(to_parent[1], 'w');
        take<char>(to_child[0]);
        return 0;
    });
    Writer writer(*this);
    if (!writer.shared())
        GTEST_SKIP() << "nothing is shared in this build: runs without sanitizers";
    std::fill_n(writer.side.memory.data(), 100001, std::byte{3});
    EXPECT_EQ(writer.write(5, 100001, writer.place.key), IBV_WC_SUCCESS);
    EXPECT_GE(windows_onto_peers(), 1);
    tell(to_child[1], 'c');
    take<char>(to_parent[0]);
    EXPECT_EQ(writer.read(1, 200000), IBV_WC_SUCCESS);
    EXPECT_TRUE(all_are(writer.side.memory.data(), 200000, 8));
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharedProcesses, a_window_onto_shared_memory_is_shared) {
    Child child([&] {
        Target target(*this);
        struct ibv_mw* const window = ibv_alloc_mw(target.side.domain.get(), IBV_MW_TYPE_1);
        ibv_mw_bind bind{};
        bind.send_flags = IBV_SEND_SIGNALED;
        bind.bind_info = {target.region.get(), reinterpret_cast<std::uint64_t>(target.data + 1000),
                          50000, IBV_ACCESS_REMOTE_WRITE};
        if (window == nullptr || ibv_bind_mw(target.side.pair.get(), window, &bind) != 0) return 2;
        if (target.side.poll().status != IBV_WC_SUCCESS) return 3;
        tell(to_parent[1], window->rkey);
        take<char>(to_child[0]);
        const bool right = all_are(target.data + 1000, 50000, 6) &&
                           target.data[999] == std::byte{} && target.data[51000] == std::byte{};
        return ibv_dealloc_mw(window) == 0 && right ? 0 : 4;
    });
    Writer writer(*this);
    const auto key = take<std::uint32_t>(to_parent[0]);
    std::fill_n(writer.side.memory.data(), 50001, std::byte{6});
    EXPECT_EQ(writer.write(1000, 50000, key), IBV_WC_SUCCESS);
    EXPECT_EQ(windows_onto_peers() != 0, writer.shared());
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
    EXPECT_NE(writer.write(1000, 50001, key), IBV_WC_SUCCESS);
}

// As on a card the owner would pin what it unmaps: here it is an error, soon.
TEST_F(SharedProcesses, memory_that_is_unmapped_under_traffic_is_an_error_of_the_request) {
    for (const bool reads : {false, true}) {
        Child child([&] {
            const Target target(*this);
            take<char>(to_child[0]);
            // Nobody else's: what is mapped meanwhile goes elsewhere.
            mmap(target.data, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            tell(to_parent[1], 'u');
            take<char>(to_child[0]);
            return 0;
        });
        Writer writer(*this);
        const auto request = [&] {
            return reads ? writer.read(0, 65536) : writer.write(0, 65536, writer.place.key);
        };
        for (int i = 0; i < 100; ++i) ASSERT_EQ(request(), IBV_WC_SUCCESS);
        tell(to_child[1], 'c');
        ibv_wc_status status = IBV_WC_SUCCESS;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (status == IBV_WC_SUCCESS && std::chrono::steady_clock::now() < deadline)
            status = request();
        EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR) << reads;
        take<char>(to_parent[0]);
        tell(to_child[1], 'e');
        EXPECT_EQ(child.wait(), 0);
    }
}

// The inline path has its own way to memory that is mapped.
TEST_F(SharedProcesses, small_inline_writes_find_unmapped_memory_too) {
    Child child([&] {
        const Target target(*this);
        take<char>(to_child[0]);
        mmap(target.data, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        take<char>(to_child[0]);
        return 0;
    });
    Writer writer(*this);
    const auto request = [&] {
        writer.side.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(writer.there + 24, writer.place.key)
            .flags(IBV_SEND_INLINE)
            .post(writer.side.pair.get());
        return writer.side.poll().status;
    };
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(request(), IBV_WC_SUCCESS);
    tell(to_child[1], 'c');
    ibv_wc_status status = IBV_WC_SUCCESS;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (status == IBV_WC_SUCCESS && std::chrono::steady_clock::now() < deadline)
        status = request();
    EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharedProcesses, a_key_that_was_deregistered_is_refused_and_the_next_region_works) {
    Child child([&] {
        Target target(*this);
        take<char>(to_child[0]);
        target.region.reset();
        if (is_shared(target.data) || !all_are(target.data, 65536, 1)) return 2;
        target.region.reset(good(
            ibv_reg_mr(target.side.domain.get(), target.data, kBytes, kAnything), "ibv_reg_mr"));
        if (!all_are(target.data, 65536, 1)) return 3;
        tell(to_parent[1], target.region->rkey);
        take<char>(to_child[0]);
        return all_are(target.data, 65536, 2) ? 0 : 4;
    });
    Writer writer(*this);
    std::fill_n(writer.side.memory.data(), 65536, std::byte{1});
    ASSERT_EQ(writer.write(0, 65536, writer.place.key), IBV_WC_SUCCESS);
    tell(to_child[1], 'c');
    const auto key = take<std::uint32_t>(to_parent[0]);
    std::fill_n(writer.side.memory.data(), 65536, std::byte{2});
    EXPECT_EQ(writer.write(0, 65536, key), IBV_WC_SUCCESS);
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
    EXPECT_NE(writer.write(0, 65536, writer.place.key), IBV_WC_SUCCESS);
}

TEST_F(SharedProcesses, a_forked_child_has_its_own_copy_as_of_the_fork) {
    const Context context = open_device();
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    std::byte* const data = new_pages();
    std::memset(data, 1, kBytes);
    const Region region(
        good(ibv_reg_mr(other.domain.get(), data, kBytes, kAnything), "ibv_reg_mr"));
    ASSERT_EQ(mprotect(data + 8 * kPage, kPage, PROT_READ), 0);
    Child child([&] {
        take<char>(to_child[0]);  // the parent has written
        if (is_shared(data) || !all_are(data, kBytes, 1)) return 2;
        if (mapping_at(data + 8 * kPage).find("r--p") == std::string::npos) return 3;
        std::memset(data, 3, 8 * kPage);
        tell(to_parent[1], 'w');
        take<char>(to_child[0]);
        // It goes on as its own program does.
        const Context own = open_device();
        const Side side(own.get());
        const Region again(
            good(ibv_reg_mr(side.domain.get(), data, 8 * kPage, kAnything), "ibv_reg_mr"));
        return all_are(data, 8 * kPage, 3) && all_are(data + 9 * kPage, kPage, 1) ? 0 : 4;
    });
    std::memset(data, 2, 8 * kPage);
    // A peer's write as well.
    std::fill_n(one.memory.data(), kPage, std::byte{2});
    one.request(IBV_WR_RDMA_WRITE, 0, kPage)
        .to(data + 10 * kPage, region->rkey)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    tell(to_child[1], 'c');
    take<char>(to_parent[0]);
    EXPECT_TRUE(all_are(data, 8 * kPage, 2) && all_are(data + 10 * kPage, kPage, 2));
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(all_are(data, 8 * kPage, 2));
    // And a child of nobody's memory: it may fork, too.
    Child grandparent([&] {
        Child grandchild([&] { return all_are(data, 8 * kPage, 2) ? 0 : 2; });
        return grandchild.wait();
    });
    EXPECT_EQ(grandparent.wait(), 0);
}

}  // namespace
}  // namespace verbatim::interop

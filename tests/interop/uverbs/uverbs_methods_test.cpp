// What unmodified libibverbs asks for by ioctl() only: device memory, advice, the port's table of
// addresses; and what of it is refused.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

using DeviceMemory = std::unique_ptr<ibv_dm, Destroyer<ibv_free_dm>>;

struct Methods : testing::Test {
    Methods() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    ibv_dm* allocate(std::size_t bytes, std::uint32_t alignment_log2 = 0) {
        ibv_alloc_dm_attr wanted{bytes, alignment_log2, 0};
        return ibv_alloc_dm(context.get(), &wanted);
    }
    Region register_at(ibv_dm* memory, std::uint64_t offset, std::size_t bytes) {
        return Region(
            ibv_reg_dm_mr(other.domain.get(), memory, offset, bytes,
                          unsigned{IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE} | kAllAccess));
    }
    Context context = open_device();
    Side one{context.get()}, other{context.get()};
};

const void* at(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

TEST_F(Methods, what_a_peer_writes_into_device_memory_is_there) {
    const DeviceMemory memory(good(allocate(8192), "ibv_alloc_dm"));
    const Region region = register_at(memory.get(), 4, 5000);
    ASSERT_NE(region, nullptr);
    one.fill(0, 4096, 9);
    one.request(IBV_WR_RDMA_WRITE, 0, 4096).to(at(100), region->rkey).post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    std::vector<std::byte> found(4096);
    ASSERT_EQ(ibv_memcpy_from_dm(found.data(), memory.get(), 104, 4096), 0);
    EXPECT_EQ(std::memcmp(found.data(), one.memory.data(), 4096), 0);
    one.request(IBV_WR_RDMA_READ, 8192, 4096).to(at(100), region->rkey).post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data() + 8192, one.memory.data(), 4096), 0);
}

TEST_F(Methods, device_memory_is_sent_from_received_into_and_counted_in) {
    const DeviceMemory memory(good(allocate(4096), "ibv_alloc_dm"));
    const Region region = register_at(memory.get(), 0, 4096);
    ASSERT_NE(region, nullptr);
    ibv_sge into{256, 64, region->lkey};
    ibv_recv_wr receive{1, nullptr, &into, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &receive, &bad), "ibv_post_recv");
    one.fill(0, 64, 5);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    one.receive(1024, 64);
    Request(IBV_WR_SEND, at(256), 64, region->lkey).post(other.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data() + 1024, one.memory.data(), 64), 0);
    for (int i = 0; i < 2; ++i) {
        one.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
            .atomic(at(8), region->rkey, 21)
            .post(one.pair.get());
        ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(one.word(0), 21u);
    std::uint64_t sum = 0;
    ASSERT_EQ(ibv_memcpy_from_dm(&sum, memory.get(), 8, 8), 0);
    EXPECT_EQ(sum, 42u);
}

TEST_F(Methods, a_region_of_device_memory_ends_where_it_was_said_to) {
    const DeviceMemory memory(good(allocate(4096), "ibv_alloc_dm"));
    EXPECT_EQ(register_at(memory.get(), 4000, 97), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_reg_dm_mr(other.domain.get(), memory.get(), 0, 64, kAllAccess), nullptr);
    EXPECT_EQ(errno, EINVAL) << "not zero-based";
    const Region region = register_at(memory.get(), 0, 4096);
    one.request(IBV_WR_RDMA_WRITE, 0, 8).to(at(4092), region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Methods, device_memory_in_use_is_not_freed_and_comes_back_empty) {
    ibv_dm* const first = good(allocate(4096), "ibv_alloc_dm");
    const std::uint32_t mark = 77;
    ASSERT_EQ(ibv_memcpy_to_dm(first, 0, &mark, 4), 0);
    Region region = register_at(first, 0, 4096);
    EXPECT_EQ(ibv_free_dm(first), EBUSY);
    region.reset();
    ASSERT_EQ(ibv_free_dm(first), 0);
    const DeviceMemory again(good(allocate(4096), "ibv_alloc_dm"));
    std::uint32_t found = 1;
    ASSERT_EQ(ibv_memcpy_from_dm(&found, again.get(), 0, 4), 0);
    EXPECT_EQ(found, 0u);
}

// ib_core takes it; no request of a byte may use it.
TEST_F(Methods, a_region_of_device_memory_may_be_of_no_bytes) {
    const DeviceMemory memory(good(allocate(4096), "ibv_alloc_dm"));
    const Region region = register_at(memory.get(), 4096, 0);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->length, 0u);
    one.request(IBV_WR_RDMA_WRITE, 0, 0).to(at(0), region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    one.request(IBV_WR_RDMA_WRITE, 0, 1).to(at(0), region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Methods, there_is_as_much_device_memory_as_the_device_says) {
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    ASSERT_NE(device.max_dm_size, 0u);
    EXPECT_EQ(allocate(device.max_dm_size + 1), nullptr);
    {
        const DeviceMemory all(good(allocate(device.max_dm_size), "ibv_alloc_dm"));
        EXPECT_EQ(allocate(64), nullptr);
        const std::uint32_t last = 5;
        EXPECT_EQ(ibv_memcpy_to_dm(all.get(), device.max_dm_size - 4, &last, 4), 0);
    }
    const DeviceMemory small(good(allocate(64), "ibv_alloc_dm"));
    const DeviceMemory aligned(good(allocate(64, 16), "ibv_alloc_dm"));
    EXPECT_EQ(allocate(0), nullptr);
}

struct Advice : Methods {
    static constexpr std::size_t kBytes = 64 * 4096;
    Advice() {
        memory = static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        region.reset(good(ibv_reg_mr(one.domain.get(), memory, kBytes, int{IBV_ACCESS_ON_DEMAND}),
                          "ibv_reg_mr"));
    }
    ~Advice() override {
        region.reset();
        munmap(memory, kBytes);
    }
    int advise(ibv_advise_mr_advice advice, std::size_t bytes, std::uint32_t key,
               ibv_pd* domain = nullptr) {
        ibv_sge range{reinterpret_cast<std::uint64_t>(memory), static_cast<std::uint32_t>(bytes),
                      key};
        return ibv_advise_mr(domain != nullptr ? domain : one.domain.get(), advice,
                             unsigned{IBV_ADVISE_MR_FLAG_FLUSH}, &range, 1);
    }
    long present() {
        std::vector<unsigned char> pages(kBytes / 4096);
        EXPECT_EQ(mincore(memory, kBytes, pages.data()), 0);
        return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
    }
    std::byte* memory = nullptr;
    Region region;
};

TEST_F(Advice, brings_memory_on_demand_in_before_it_is_used) {
    ASSERT_EQ(present(), 0);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, kBytes, region->lkey), 0);
    EXPECT_EQ(present(), 0);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kBytes / 2, region->lkey), 0);
    EXPECT_GE(present(), 32);
}

TEST_F(Advice, is_refused_where_it_makes_no_sense) {
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, kBytes, region->lkey), EPERM);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kBytes + 1, region->lkey), EFAULT);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kBytes, region->lkey ^ 0x100), ENOENT);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kBytes, region->lkey, other.domain.get()),
              EPERM);
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 64, one.region->lkey), ENOENT)
        << "not on demand";
    EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(3), 64, region->lkey), EOPNOTSUPP);
    ibv_sge range{};
    EXPECT_EQ(ibv_advise_mr(one.domain.get(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 0), EINVAL);
}

TEST_F(Methods, the_ports_addresses_come_one_by_one_and_all_at_once) {
    std::vector<ibv_gid_entry> table(8);
    const ssize_t count = ibv_query_gid_table(context.get(), table.data(), table.size(), 0);
    ASSERT_EQ(count, 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
        ibv_gid_entry entry{};
        ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, i, &entry, 0), 0);
        EXPECT_EQ(std::memcmp(&entry, &table[i], sizeof entry), 0);
        EXPECT_EQ(entry.gid_index, i);
        EXPECT_EQ(entry.port_num, 1u);
        EXPECT_NE(entry.ndev_ifindex, 0u);
        EXPECT_EQ(entry.gid_type, i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
        ibv_gid gid{};
        ASSERT_EQ(ibv_query_gid(context.get(), 1, static_cast<int>(i), &gid), 0);
        EXPECT_EQ(std::memcmp(&gid, &entry.gid, sizeof gid), 0);
    }
}

TEST_F(Methods, addresses_that_the_port_does_not_have_are_refused) {
    ibv_gid_entry entry{};
    EXPECT_EQ(ibv_query_gid_ex(context.get(), 2, 0, &entry, 0), EINVAL);
    EXPECT_EQ(ibv_query_gid_ex(context.get(), 1, 4, &entry, 0), EINVAL);
    // By the older interface it would be EOPNOTSUPP.
    EXPECT_EQ(ibv_query_gid_ex(context.get(), 1, 0, &entry, 1), EINVAL);
    EXPECT_EQ(ibv_query_gid_table(context.get(), &entry, 1, 0), -EINVAL) << "there are four";
}

TEST_F(Methods, a_method_that_is_unknown_says_so) {
    ibv_counters_init_attr wanted{};
    EXPECT_EQ(ibv_create_counters(context.get(), &wanted), nullptr);
    EXPECT_EQ(errno, EPROTONOSUPPORT);
    EXPECT_EQ(ibv_reg_dmabuf_mr(one.domain.get(), 0, 4096, 0, 0, 0), nullptr);
    EXPECT_EQ(errno, EPROTONOSUPPORT);
}

}  // namespace
}  // namespace verbatim::interop

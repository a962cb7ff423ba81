// Small receives, reads and atomics whose data come in the completion's entry, as unmodified
// libmlx5 asks for it: what lies in the raw entry, and what ibv_poll_cq() and ibv_start_poll()
// bring to memory.
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "../processes/maps.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

// For queues that are made while it lives.
class EntryBytes {
  public:
    explicit EntryBytes(int bytes) { setenv("MLX5_CQE_SIZE", std::to_string(bytes).c_str(), 1); }
    ~EntryBytes() { unsetenv("MLX5_CQE_SIZE"); }
    EntryBytes(const EntryBytes&) = delete;
    EntryBytes& operator=(const EntryBytes&) = delete;
};

// The first entry of a completion queue, as the device wrote it.
struct RawEntry {
    const std::byte* start = nullptr;
    const mlx5_cqe64* proper = nullptr;
    explicit RawEntry(ibv_cq* queue) {
        mlx5dv_cq view{};
        mlx5dv_obj object{};
        object.cq.in = queue, object.cq.out = &view;
        good(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
        start = static_cast<const std::byte*>(view.buf);
        proper = reinterpret_cast<const mlx5_cqe64*>(start + view.cqe_size - sizeof(mlx5_cqe64));
    }
    bool holds_32() const { return (proper->op_own & MLX5_INLINE_SCATTER_32) != 0; }
    bool holds_64() const { return (proper->op_own & MLX5_INLINE_SCATTER_64) != 0; }
};

struct EntryData : testing::Test {
    explicit EntryData(int bytes = 64, bool shared = false)
        : entry_bytes(bytes), other(context.get(), {.shared_receives = shared}) {}
    void join() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    // Another queue pair of `one`, whose requests all complete.
    void signal_all() {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = one.completions.get();
        wanted.cap = {32, 32, 4, 4, 64};
        wanted.qp_type = IBV_QPT_RC;
        wanted.sq_sig_all = 1;
        one.pair.reset(good(ibv_create_qp(one.domain.get(), &wanted), "ibv_create_qp"));
    }
    // Until it is acknowledged; then it was received.
    void send(std::uint32_t bytes) {
        one.request(IBV_WR_SEND, 0, bytes).post(one.pair.get());
        ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    bool arrived(std::size_t at, std::size_t bytes) {
        return std::memcmp(other.memory.data() + at, one.memory.data(), bytes) == 0;
    }
    void expect_in_memory(std::uint32_t bytes) {
        one.fill(0, bytes, 3);
        other.receive(100, 64);
        send(bytes);
        EXPECT_FALSE(RawEntry(other.completions.get()).holds_32());
        EXPECT_TRUE(arrived(100, bytes));
        EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    }
    EntryBytes entry_bytes;
    Context context = open_device();
    Side one{context.get()}, other;
};

TEST_F(EntryData, a_small_message_waits_in_the_entry_until_it_is_polled) {
    join();
    one.fill(0, 32, 3);
    other.receive(100, 64);
    send(32);
    const RawEntry raw(other.completions.get());
    EXPECT_TRUE(raw.holds_32());
    EXPECT_EQ(std::memcmp(raw.start, one.memory.data(), 32), 0);
    EXPECT_FALSE(arrived(100, 32)) << "before the poll";
    const ibv_wc done = other.poll();
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.byte_len, 32u);
    EXPECT_TRUE(arrived(100, 32));
}

TEST_F(EntryData, a_longer_message_goes_to_memory) {
    join();
    expect_in_memory(33);
}

struct LongEntryData : EntryData {
    LongEntryData() : EntryData(128) {}
};

TEST_F(LongEntryData, hold_messages_of_64_bytes_before_the_entry_proper) {
    join();
    one.fill(0, 64, 3);
    other.receive(100, 64);
    send(64);
    const RawEntry raw(other.completions.get());
    EXPECT_TRUE(raw.holds_64());
    EXPECT_EQ(std::memcmp(raw.start, one.memory.data(), 64), 0);
    EXPECT_FALSE(arrived(100, 64)) << "before the poll";
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(arrived(100, 64));
}

TEST_F(LongEntryData, hold_nothing_that_was_read) {
    signal_all();
    join();
    other.fill(0, 8, 6);
    one.request(IBV_WR_RDMA_READ, 0, 8)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(arrived(0, 8));
}

// Every length around the limits, into elements that cut it, own and shared receives, both entries.
struct Scattered : EntryData, testing::WithParamInterface<std::pair<int, bool>> {
    Scattered() : EntryData(GetParam().first, GetParam().second) {}
};
INSTANTIATE_TEST_SUITE_P(All, Scattered,
                         testing::Values(std::pair{64, false}, std::pair{64, true},
                                         std::pair{128, false}, std::pair{128, true}));

TEST_P(Scattered, messages_of_every_length_arrive_whole) {
    join();
    for (std::uint32_t bytes = 0; bytes < 70; ++bytes) {
        std::ranges::fill(other.memory, std::byte{0xee});
        one.fill(0, 70, static_cast<int>(bytes));
        const auto start = reinterpret_cast<std::uint64_t>(other.memory.data());
        std::array<ibv_sge, 2> elements{ibv_sge{start + 1000, 5, other.region->lkey},
                                        ibv_sge{start + 2000, 65, other.region->lkey}};
        ibv_recv_wr work{bytes, nullptr, elements.data(), 2}, *bad = nullptr;
        if (other.shared != nullptr)
            good(ibv_post_srq_recv(other.shared.get(), &work, &bad), "ibv_post_srq_recv");
        else
            good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
        send(bytes);
        const ibv_wc done = other.poll();
        ASSERT_EQ(done.status, IBV_WC_SUCCESS) << bytes;
        EXPECT_EQ(done.byte_len, bytes);
        EXPECT_EQ(done.wr_id, bytes);
        const std::size_t first = std::min<std::size_t>(bytes, 5), rest = bytes - first;
        EXPECT_TRUE(arrived(1000, first)) << bytes;
        EXPECT_EQ(std::memcmp(other.memory.data() + 2000, one.memory.data() + first, rest), 0)
            << bytes;
        EXPECT_EQ(other.memory[1000 + first], std::byte{0xee});
        EXPECT_EQ(other.memory[2000 + rest], std::byte{0xee});
    }
}

TEST_F(EntryData, results_wait_in_the_entry_where_every_request_completes) {
    signal_all();
    join();
    other.fill(0, 32, 4);
    one.request(IBV_WR_RDMA_READ, 4096, 32)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(RawEntry(one.completions.get()).holds_32());
    EXPECT_EQ(std::memcmp(one.memory.data() + 4096, other.memory.data(), 32), 0);
    other.word(64) = 40;
    one.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
        .atomic(other.memory.data() + 64, other.region->rkey, 2)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    // As on a card: results in an entry are big endian, and libmlx5 leaves them so.
    EXPECT_EQ(be64toh(one.word(0)), 40u);
    one.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8)
        .atomic(other.memory.data() + 64, other.region->rkey, 42, 7)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(be64toh(one.word(8)), 42u);
    EXPECT_EQ(other.word(64), 7u);
    for (std::uint32_t bytes = 1; bytes < 40; ++bytes) {  // many outstanding, the ring goes round
        for (std::size_t i = 0; i < 20; ++i)
            one.request(IBV_WR_RDMA_READ, 8192 + i * 64, bytes)
                .to(other.memory.data() + i, other.region->rkey)
                .post(one.pair.get());
        for (int i = 0; i < 20; ++i) ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
        for (std::size_t i = 0; i < 20; ++i)
            EXPECT_EQ(
                std::memcmp(one.memory.data() + 8192 + i * 64, other.memory.data() + i, bytes), 0);
    }
}

TEST_F(EntryData, results_go_to_memory_where_not_every_request_completes) {
    join();
    other.fill(0, 32, 4);
    one.request(IBV_WR_RDMA_READ, 4096, 32)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_FALSE(RawEntry(one.completions.get()).holds_32());
    EXPECT_EQ(std::memcmp(one.memory.data() + 4096, other.memory.data(), 32), 0);
}

TEST_F(EntryData, a_queue_pair_that_does_not_want_it_gets_its_data_in_memory) {
    setenv("MLX5_SCATTER_TO_CQE", "0", 1);
    other.make_pair();
    unsetenv("MLX5_SCATTER_TO_CQE");
    join();
    expect_in_memory(8);
}

// By libmlx5's own functions each queue pair says for itself, whatever the environment says.
struct ChosenData : EntryData {
    void make(Side& side, std::uint32_t flags) {
        ibv_qp_init_attr_ex wanted{};
        wanted.send_cq = wanted.recv_cq = side.completions.get();
        wanted.cap = {32, 32, 4, 4, 0};
        wanted.qp_type = IBV_QPT_RC;
        wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
        wanted.pd = side.domain.get();
        mlx5dv_qp_init_attr ours{};
        ours.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
        ours.create_flags = flags;
        side.pair.reset(good(mlx5dv_create_qp(context.get(), &wanted, &ours), "mlx5dv_create_qp"));
    }
    bool read_comes_in_entry() {
        one.request(IBV_WR_RDMA_READ, 4096, 8)
            .to(other.memory.data(), other.region->rkey)
            .post(one.pair.get());
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(std::memcmp(one.memory.data() + 4096, other.memory.data(), 8), 0);
        return RawEntry(one.completions.get()).holds_32();
    }
};

TEST_F(ChosenData, a_queue_pair_may_have_none) {
    make(other, MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE);
    join();
    expect_in_memory(8);
}

TEST_F(ChosenData, a_queue_pair_may_allow_it_for_what_it_reads) {
    make(one, MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE);
    join();
    other.fill(0, 8, 4);
    EXPECT_TRUE(read_comes_in_entry());
}

TEST_F(ChosenData, what_is_read_goes_to_memory_where_nobody_allowed_it) {
    make(one, 0);
    join();
    other.fill(0, 8, 4);
    EXPECT_FALSE(read_comes_in_entry());
}

// What libmlx5 asks the device for by mlx5dv_create_cq().
struct ChosenQueue : testing::Test {
    Completions make(const mlx5dv_cq_init_attr& ours) {
        ibv_cq_init_attr_ex wanted{};
        wanted.cqe = 63;
        mlx5dv_cq_init_attr copy = ours;
        ibv_cq_ex* const queue = mlx5dv_create_cq(context.get(), &wanted, &copy);
        return Completions(queue == nullptr ? nullptr : ibv_cq_ex_to_cq(queue));
    }
    static std::uint32_t entry_bytes(const Completions& queue) {
        mlx5dv_cq view{};
        mlx5dv_obj object{};
        object.cq.in = queue.get(), object.cq.out = &view;
        good(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
        return view.cqe_size;
    }
    Context context = open_device();
};

TEST_F(ChosenQueue, has_entries_of_either_size) {
    for (const auto bytes : {std::uint16_t{64}, std::uint16_t{128}}) {
        mlx5dv_cq_init_attr wanted{};
        wanted.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
        wanted.cqe_size = bytes;
        const Completions queue = make(wanted);
        ASSERT_NE(queue, nullptr);
        EXPECT_EQ(entry_bytes(queue), bytes);
    }
    mlx5dv_cq_init_attr wrong{};
    wrong.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    wrong.cqe_size = 256;
    EXPECT_EQ(make(wrong), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

// A device says what it can; libmlx5 asks for nothing else.
TEST_F(ChosenQueue, compresses_and_pads_only_where_the_device_says_so) {
    mlx5dv_context device{};
    device.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
    good(mlx5dv_query_device(context.get(), &device), "mlx5dv_query_device");
    EXPECT_EQ(device.cqe_comp_caps.max_num, 0u);
    mlx5dv_cq_init_attr compressed{};
    compressed.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    compressed.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
    EXPECT_EQ(make(compressed), nullptr);
    const bool pads = (device.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD) != 0;
    mlx5dv_cq_init_attr padded{};
    padded.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE | MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
    padded.cqe_size = 128;
    padded.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
    EXPECT_EQ(make(padded) != nullptr, pads);
}

// libmlx5 copies to the address in the request.
TEST_F(EntryData, memory_under_another_address_is_written_by_the_device) {
    join();
    std::vector<std::byte> memory(4096);
    const std::uint64_t name = 0x10000000 + reinterpret_cast<std::uint64_t>(memory.data()) % 4096;
    const Region region(good(ibv_reg_mr_iova(other.domain.get(), memory.data(), memory.size(), name,
                                             unsigned{IBV_ACCESS_LOCAL_WRITE}),
                             "ibv_reg_mr_iova"));
    ibv_sge element{name + 16, 64, region->lkey};
    ibv_recv_wr work{7, nullptr, &element, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
    one.fill(0, 8, 3);
    send(8);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(memory.data() + 16, one.memory.data(), 8), 0);
}

TEST_F(EntryData, memory_that_went_is_an_error_of_the_receive) {
    join();
    void* const memory =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const Region region(good(
        ibv_reg_mr(other.domain.get(), memory, 4096, int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr"));
    ibv_sge element{reinterpret_cast<std::uint64_t>(memory), 64, region->lkey};
    ibv_recv_wr work{7, nullptr, &element, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
    lose(memory, 4096);
    one.request(IBV_WR_SEND, 0, 8).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(one.poll().status, IBV_WC_REM_OP_ERR);
}

// The other interface for polling, and an immediate beside the data.
TEST_F(EntryData, is_brought_to_memory_by_start_poll_too) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    wanted.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
    ibv_cq_ex* const queue = good(ibv_create_cq_ex(context.get(), &wanted), "ibv_create_cq_ex");
    {
        const Completions owner(ibv_cq_ex_to_cq(queue));
        ibv_qp_init_attr attributes{};
        attributes.send_cq = other.completions.get();
        attributes.recv_cq = ibv_cq_ex_to_cq(queue);
        attributes.cap = {8, 8, 1, 1, 0};
        attributes.qp_type = IBV_QPT_RC;
        other.pair.reset(good(ibv_create_qp(other.domain.get(), &attributes), "ibv_create_qp"));
        join();
        one.fill(0, 24, 8);
        other.receive(100, 64, 5);
        Request request = one.request(IBV_WR_SEND_WITH_IMM, 0, 24);
        request.work.imm_data = 1234;
        request.post(one.pair.get());
        ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
        ibv_poll_cq_attr none{};
        ASSERT_EQ(ibv_start_poll(queue, &none), 0);
        EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
        EXPECT_EQ(queue->wr_id, 5u);
        EXPECT_EQ(ibv_wc_read_byte_len(queue), 24u);
        EXPECT_EQ(ibv_wc_read_imm_data(queue), 1234u);
        ibv_end_poll(queue);
        EXPECT_TRUE(arrived(100, 24));
        other.pair.reset();
    }
}

}  // namespace
}  // namespace verbatim::interop

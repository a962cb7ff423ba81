// Requests of unmodified libibverbs and libmlx5 between two queue pairs of one process: what the
// software NIC does with them is what a program expects of a device.
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

struct TwoPairs : testing::Test {
    TwoPairs() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    void expect_equal(std::size_t from, std::size_t to, std::size_t bytes) {
        EXPECT_EQ(std::memcmp(one.memory.data() + from, other.memory.data() + to, bytes), 0);
    }
    // One's completion.
    void expect_done(std::uint64_t id, ibv_wc_opcode opcode) {
        const ibv_wc done = one.poll();
        EXPECT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
        EXPECT_EQ(done.wr_id, id);
        EXPECT_EQ(done.opcode, opcode);
        EXPECT_EQ(done.qp_num, one.pair->qp_num);
    }
    void expect_failed(std::uint64_t id, ibv_wc_status status) {
        const ibv_wc done = one.poll();
        EXPECT_EQ(done.status, status) << ibv_wc_status_str(done.status);
        EXPECT_EQ(done.wr_id, id);
        EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_ERR);
    }

    Context context = open_device();
    Side one{context.get()}, other{context.get()};
};

TEST_F(TwoPairs, a_send_fills_the_receive_and_both_complete) {
    one.fill(0, 5000, 1);
    other.receive(100, 6000, 77);
    one.request(IBV_WR_SEND, 0, 5000).post(one.pair.get(), 5);
    const ibv_wc arrived = other.poll();
    EXPECT_EQ(arrived.status, IBV_WC_SUCCESS);
    EXPECT_EQ(arrived.wr_id, 77u);
    EXPECT_EQ(arrived.opcode, IBV_WC_RECV);
    EXPECT_EQ(arrived.byte_len, 5000u);
    EXPECT_EQ(arrived.qp_num, other.pair->qp_num);
    expect_done(5, IBV_WC_SEND);
    expect_equal(0, 100, 5000);
}

TEST_F(TwoPairs, a_send_waits_for_its_receive) {
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 5);
    ibv_wc none;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(ibv_poll_cq(one.completions.get(), 1, &none), 0);
    other.receive(0, 64);
    EXPECT_EQ(other.poll().opcode, IBV_WC_RECV);
    expect_done(5, IBV_WC_SEND);
}

TEST_F(TwoPairs, an_immediate_arrives_with_send_and_write) {
    other.receive(0, 64), other.receive(64, 64);
    Request send = one.request(IBV_WR_SEND_WITH_IMM, 0, 8);
    send.work.imm_data = htobe32(0x1234);
    send.flags(IBV_SEND_INLINE).post(one.pair.get(), 1);
    ibv_wc arrived = other.poll();
    EXPECT_EQ(arrived.opcode, IBV_WC_RECV);
    EXPECT_TRUE((arrived.wc_flags & IBV_WC_WITH_IMM) != 0);
    EXPECT_EQ(be32toh(arrived.imm_data), 0x1234u);
    expect_done(1, IBV_WC_SEND);

    one.fill(0, 100000, 3);
    Request write = one.request(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 100000);
    write.work.imm_data = htobe32(0x5678);
    write.to(other.memory.data() + 4096, other.region->rkey).post(one.pair.get(), 2);
    arrived = other.poll();
    EXPECT_EQ(arrived.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(arrived.byte_len, 100000u);
    EXPECT_EQ(be32toh(arrived.imm_data), 0x5678u);
    expect_done(2, IBV_WC_RDMA_WRITE);
    expect_equal(0, 4096, 100000);
}

TEST_F(TwoPairs, writes_and_reads_reach_the_others_memory) {
    one.fill(0, 300000, 5);
    one.request(IBV_WR_RDMA_WRITE, 0, 300000)
        .to(other.memory.data() + 7, other.region->rkey)
        .post(one.pair.get(), 1);
    expect_done(1, IBV_WC_RDMA_WRITE);
    expect_equal(0, 7, 300000);
    other.fill(0, 200000, 9);
    one.request(IBV_WR_RDMA_READ, 64, 200000)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get(), 2);
    expect_done(2, IBV_WC_RDMA_READ);
    expect_equal(64, 0, 200000);
}

TEST_F(TwoPairs, a_thousand_inline_writes_go_round_ring_and_completion_queue) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
        one.word(0) = i * 3 + 1;
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data() + 8 * (i % 100), other.region->rkey)
            .flags(IBV_SEND_INLINE)
            .post(one.pair.get(), i);
        expect_done(i, IBV_WC_RDMA_WRITE);
        ASSERT_EQ(other.word(8 * (i % 100)), i * 3 + 1);
    }
}

TEST_F(TwoPairs, atomics_return_what_was_there) {
    other.word(128) = 40;
    one.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
        .atomic(other.memory.data() + 128, other.region->rkey, 2)
        .post(one.pair.get(), 1);
    expect_done(1, IBV_WC_FETCH_ADD);
    EXPECT_EQ(one.word(0), 40u);
    EXPECT_EQ(other.word(128), 42u);
    one.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8)
        .atomic(other.memory.data() + 128, other.region->rkey, 42, 1000)
        .post(one.pair.get(), 2);
    expect_done(2, IBV_WC_COMP_SWAP);
    EXPECT_EQ(one.word(8), 42u);
    EXPECT_EQ(other.word(128), 1000u);
}

using Window = std::unique_ptr<ibv_mw, Destroyer<ibv_dealloc_mw>>;

TEST_F(TwoPairs, a_window_of_a_queue_pair_is_bound_used_and_invalidated) {
    const Region region(good(ibv_reg_mr(other.domain.get(), other.memory.data(), Side::kBytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
                             "ibv_reg_mr"));
    const Window window(good(ibv_alloc_mw(other.domain.get(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
    const std::uint32_t key = ibv_inc_rkey(window->rkey);
    Request bind(IBV_WR_BIND_MW, nullptr, 0, 0);
    bind.work.num_sge = 0;
    bind.work.bind_mw = {window.get(),
                         key,
                         {region.get(), reinterpret_cast<std::uint64_t>(&other.memory[4096]), 64,
                          IBV_ACCESS_REMOTE_WRITE}};
    bind.post(other.pair.get(), 3);
    const ibv_wc bound = other.poll();
    EXPECT_EQ(bound.status, IBV_WC_SUCCESS) << ibv_wc_status_str(bound.status);
    EXPECT_EQ(bound.wr_id, 3u);

    one.fill(0, 64, 9);
    one.request(IBV_WR_RDMA_WRITE, 0, 64).to(&other.memory[4096], key).post(one.pair.get(), 4);
    expect_done(4, IBV_WC_RDMA_WRITE);
    expect_equal(0, 4096, 64);
    EXPECT_EQ(ibv_dereg_mr(region.get()), EBUSY);

    Request invalidate(IBV_WR_LOCAL_INV, nullptr, 0, 0);
    invalidate.work.num_sge = 0;
    invalidate.work.invalidate_rkey = key;
    invalidate.post(other.pair.get(), 5);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    one.request(IBV_WR_RDMA_WRITE, 0, 64).to(&other.memory[4096], key).post(one.pair.get(), 6);
    expect_failed(6, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(TwoPairs, a_wrong_remote_key_is_a_remote_access_error) {
    one.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(other.memory.data(), other.region->rkey ^ 0x100)
        .post(one.pair.get(), 9);
    expect_failed(9, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(TwoPairs, an_address_outside_the_region_is_a_remote_access_error) {
    one.request(IBV_WR_RDMA_READ, 0, 16)
        .to(other.memory.data() + Side::kBytes - 8, other.region->rkey)
        .post(one.pair.get(), 9);
    expect_failed(9, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(TwoPairs, a_wrong_local_key_is_a_local_protection_error) {
    Request(IBV_WR_SEND, one.memory.data(), 64, one.region->lkey ^ 0x100).post(one.pair.get(), 9);
    expect_failed(9, IBV_WC_LOC_PROT_ERR);
}

TEST_F(TwoPairs, a_message_longer_than_its_receive_fails_on_both_sides) {
    other.receive(0, 10, 4);
    one.request(IBV_WR_SEND, 0, 11).post(one.pair.get(), 9);
    EXPECT_EQ(other.poll().status, IBV_WC_LOC_LEN_ERR);
    expect_failed(9, IBV_WC_REM_INV_REQ_ERR);
}

// It fills the way to the peer many times: the sender is in the midst of it when it is refused.
TEST_F(TwoPairs, a_refused_message_of_any_length_fails_for_the_receivers_reason) {
    other.receive(0, 16);
    one.request(IBV_WR_SEND, 0, 900000).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(one.poll().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(TwoPairs, the_error_state_flushes_everything_once) {
    for (std::uint64_t i = 0; i < 5; ++i) one.receive(0, 64, i);
    for (std::uint64_t i = 0; i < 3; ++i) one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), i);
    to_error(one.pair.get());
    EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_ERR);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(one.poll().status, IBV_WC_WR_FLUSH_ERR);
    ibv_wc more;
    EXPECT_EQ(ibv_poll_cq(one.completions.get(), 1, &more), 0);
}

TEST_F(TwoPairs, can_be_reset_and_connected_again) {
    ibv_qp_attr to = state(IBV_QPS_RESET);
    good(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE), "to RESET");
    good(ibv_modify_qp(other.pair.get(), &to, IBV_QP_STATE), "to RESET");
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 5);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    expect_done(5, IBV_WC_SEND);
}

TEST_F(TwoPairs, requests_to_a_destroyed_peer_exceed_their_retries) {
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    expect_done(1, IBV_WC_SEND);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    other.pair.reset();
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 2);
    expect_failed(2, IBV_WC_RETRY_EXC_ERR);
}

TEST(Uverbs, requests_to_a_peer_that_never_comes_exceed_their_retries) {
    const Context context = open_device();
    Side one(context.get());
    connect(one.pair.get(), one.pair->qp_num + 1000);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 2);
    EXPECT_EQ(one.poll().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(one.poll().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Uverbs, a_send_without_receive_fails_when_its_retries_are_used_up) {
    const Context context = open_device();
    Side one(context.get()), other(context.get());
    to_init(one.pair.get()), to_receive(one.pair.get(), other.pair->qp_num);
    to_send(one.pair.get(), 2);
    connect(other.pair.get(), one.pair->qp_num);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    EXPECT_EQ(one.poll().status, IBV_WC_RNR_RETRY_EXC_ERR);
    // A receive that comes later gets nothing of it.
    other.receive(0, 64);
    ibv_wc none;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(ibv_poll_cq(other.completions.get(), 1, &none), 0);
}

TEST(Uverbs, what_the_peers_queue_pair_does_not_allow_is_an_invalid_request) {
    const Context context = open_device();
    for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        Side one(context.get()), other(context.get());
        const unsigned missing = opcode == IBV_WR_RDMA_WRITE  ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                 : opcode == IBV_WR_RDMA_READ ? unsigned{IBV_ACCESS_REMOTE_READ}
                                                              : unsigned{IBV_ACCESS_REMOTE_ATOMIC};
        connect(one.pair.get(), other.pair->qp_num);
        to_init(other.pair.get(), kAllAccess & ~missing);
        to_receive(other.pair.get(), one.pair->qp_num), to_send(other.pair.get());
        Request request = one.request(opcode, 0, 8);
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
            request.atomic(other.memory.data(), other.region->rkey, 1);
        else
            request.to(other.memory.data(), other.region->rkey);
        request.flags(opcode == IBV_WR_RDMA_WRITE ? unsigned{IBV_SEND_INLINE} : 0)
            .post(one.pair.get(), 1);
        EXPECT_EQ(one.poll().status, IBV_WC_REM_INV_REQ_ERR) << "opcode " << opcode;
    }
}

TEST(Uverbs, a_change_of_state_needs_its_attributes) {
    const Context context = open_device();
    Side one(context.get());
    ibv_qp_attr to = state(IBV_QPS_RTR);
    EXPECT_EQ(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE), EINVAL) << "from RESET";
    to = state(IBV_QPS_INIT);
    EXPECT_EQ(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    to.port_num = 2;
    EXPECT_EQ(ibv_modify_qp(one.pair.get(), &to,
                            IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
              EINVAL);
    EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_RESET);
    to_init(one.pair.get());
    EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_INIT);
}

TEST(Uverbs, a_queue_pair_may_talk_to_itself) {
    const Context context = open_device();
    Side one(context.get());
    connect(one.pair.get(), one.pair->qp_num);
    one.fill(0, 64, 1);
    one.receive(100, 64, 7);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data(), one.memory.data() + 100, 64), 0);
}

TEST(Uverbs, two_contexts_of_one_process_are_two_devices) {
    const Context first = open_device(), second = open_device();
    Side one(first.get()), other(second.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
}

TEST(Uverbs, objects_in_use_are_not_destroyed) {
    const Context context = open_device();
    Side one(context.get());
    EXPECT_EQ(ibv_dealloc_pd(one.domain.get()), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(one.completions.get()), EBUSY);
}

TEST(Uverbs, memory_that_is_not_there_is_not_registered) {
    const Context context = open_device();
    Side one(context.get());
    EXPECT_EQ(ibv_reg_mr(one.domain.get(), reinterpret_cast<void*>(0x10000), 4096,
                         int{IBV_ACCESS_LOCAL_WRITE}),
              nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(ibv_reg_mr(one.domain.get(), one.memory.data(), 64, int{IBV_ACCESS_REMOTE_WRITE}),
              nullptr);
    EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbatim::interop

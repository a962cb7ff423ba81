// Changes to what exists, through unmodified libibverbs: registrations, queue sizes, attributes;
// and what of it is refused.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

struct Control : testing::Test {
    Control() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    ibv_wc_status write(const void* to, std::uint32_t key) {
        one.request(IBV_WR_RDMA_WRITE, 0, 64).to(to, key).post(one.pair.get());
        return one.poll().status;
    }
    Context context = open_device();
    Side one{context.get()}, other{context.get()};
};

constexpr int kFullAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

TEST_F(Control, memory_may_have_other_addresses_than_its_own) {
    std::vector<std::byte> memory(8192);
    const auto start = reinterpret_cast<std::uint64_t>(memory.data());
    const std::uint64_t name = 0x10000000 + start % 4096;
    const Region region(
        good(ibv_reg_mr_iova(other.domain.get(), memory.data(), 8192, name, kFullAccess), "iova"));
    one.fill(0, 64, 3);
    EXPECT_EQ(write(reinterpret_cast<void*>(name + 100), region->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data(), memory.data() + 100, 64), 0);
    // As local memory: a receive into it.
    ibv_sge element{name + 500, 64, region->lkey};
    ibv_recv_wr work{7, nullptr, &element, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data(), memory.data() + 500, 64), 0);
    EXPECT_EQ(write(memory.data(), region->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Control, a_region_registered_again_covers_what_it_does_then) {
    const int all = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
    const Region region(
        good(ibv_reg_mr(other.domain.get(), other.memory.data(), 4096, int{IBV_ACCESS_LOCAL_WRITE}),
             "ibv_reg_mr"));
    std::byte* const later = other.memory.data() + 65536;
    ASSERT_EQ(ibv_rereg_mr(region.get(), all, nullptr, later, 4096, kFullAccess), 0);
    EXPECT_EQ(write(later, region->rkey), IBV_WC_SUCCESS);
    const Domain domain(good(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, domain.get(), nullptr, 0, 0), 0);
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, other.domain.get(), nullptr, 0, 0),
              0);
    EXPECT_EQ(write(later, region->rkey), IBV_WC_SUCCESS);
}

// As mlx5's kernel driver does it, for all access but that of atomics.
TEST_F(Control, a_region_that_changes_its_access_or_domain_keeps_its_keys) {
    const Region region(
        good(ibv_reg_mr(other.domain.get(), other.memory.data(), 4096, kFullAccess), "ibv_reg_mr"));
    const std::uint32_t key = region->rkey;
    EXPECT_EQ(write(other.memory.data(), key), IBV_WC_SUCCESS);
    const auto change = [&](int access) {
        return ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
    };
    constexpr int kNoWrites = kFullAccess & ~IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(change(kNoWrites), 0);
    EXPECT_EQ(region->rkey, key);
    ASSERT_EQ(change(kFullAccess), 0);
    EXPECT_EQ(region->rkey, key);
    EXPECT_EQ(write(other.memory.data(), key), IBV_WC_SUCCESS);
    const Domain domain(good(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, domain.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(region->rkey, key);
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, other.domain.get(), nullptr, 0, 0),
              0);
    ASSERT_EQ(change(kNoWrites & ~IBV_ACCESS_REMOTE_ATOMIC), 0);
    EXPECT_NE(region->rkey, key) << "atomics";
    ASSERT_EQ(change(kNoWrites), 0);
    EXPECT_EQ(write(other.memory.data(), region->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Control, a_full_receive_queue_takes_no_more_until_a_completion_was_polled) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    good(ibv_query_qp(other.pair.get(), &attributes, IBV_QP_CAP, &made), "ibv_query_qp");
    ibv_sge element{reinterpret_cast<std::uint64_t>(other.memory.data()), 64, other.region->lkey};
    ibv_recv_wr work{0, nullptr, &element, 1}, *bad = nullptr;
    std::uint32_t posted = 0;
    while (posted < 10000 && ibv_post_recv(other.pair.get(), &work, &bad) == 0) ++posted;
    EXPECT_GE(posted, made.cap.max_recv_wr);
    EXPECT_LT(posted, 2 * made.cap.max_recv_wr);
    EXPECT_EQ(ibv_post_recv(other.pair.get(), &work, &bad), ENOMEM);
    EXPECT_EQ(bad, &work);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_post_recv(other.pair.get(), &work, &bad), ENOMEM) << "not polled yet";
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_post_recv(other.pair.get(), &work, &bad), 0);
    EXPECT_EQ(ibv_post_recv(other.pair.get(), &work, &bad), ENOMEM);
}

TEST(Reads, are_an_invalid_request_where_the_responder_has_room_for_none) {
    const Context context = open_device();
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    to_init(other.pair.get());
    to_receive(other.pair.get(), one.pair->qp_num, 0);
    one.request(IBV_WR_RDMA_WRITE, 0, 64)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    one.request(IBV_WR_RDMA_READ, 0, 64)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Control, a_registration_that_cannot_be_changed_stays_as_it_was) {
    const Region region(
        good(ibv_reg_mr(other.domain.get(), other.memory.data(), 4096, kFullAccess), "ibv_reg_mr"));
    EXPECT_NE(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_REMOTE_WRITE),
              0);
    EXPECT_NE(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                           reinterpret_cast<void*>(0x10000), 4096, 0),
              0);
    EXPECT_EQ(write(other.memory.data(), region->rkey), IBV_WC_SUCCESS);
}

TEST_F(Control, a_completion_queue_grows_and_shrinks_with_what_it_holds) {
    std::uint64_t next = 0;
    for (const int entries : {500, 100, 4000}) {
        for (std::uint64_t i = 0; i < 20; ++i)
            one.request(IBV_WR_RDMA_WRITE, 0, 8)
                .to(other.memory.data(), other.region->rkey)
                .flags(IBV_SEND_INLINE)
                .post(one.pair.get(), next + i);
        ASSERT_EQ(ibv_resize_cq(one.completions.get(), entries), 0);
        EXPECT_GE(one.completions->cqe, entries);
        for (int i = 0; i < 20; ++i) {
            const ibv_wc done = one.poll();
            EXPECT_EQ(done.status, IBV_WC_SUCCESS);
            EXPECT_EQ(done.wr_id, next++);
        }
    }
}

TEST_F(Control, a_completion_queue_does_not_shrink_below_what_it_holds) {
    // From now on the two are connected, and a write is complete when it was posted.
    ASSERT_EQ(write(other.memory.data(), other.region->rkey), IBV_WC_SUCCESS);
    for (int i = 0; i < 20; ++i)
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data(), other.region->rkey)
            .post(one.pair.get());
    EXPECT_NE(ibv_resize_cq(one.completions.get(), 7), 0);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
}

TEST_F(Control, a_shared_receive_queue_says_what_it_is_and_is_not_resized) {
    Side shared(context.get(), {.shared_receives = true});
    ibv_srq_attr attributes{};
    ASSERT_EQ(ibv_query_srq(shared.shared.get(), &attributes), 0);
    EXPECT_GE(attributes.max_wr, 32u);
    EXPECT_GE(attributes.max_sge, 2u);
    EXPECT_EQ(attributes.srq_limit, 0u);
    attributes.srq_limit = 10;
    ASSERT_EQ(ibv_modify_srq(shared.shared.get(), &attributes, 0), 0);
    attributes.max_wr = 64;
    EXPECT_EQ(ibv_modify_srq(shared.shared.get(), &attributes, IBV_SRQ_MAX_WR), EINVAL);
    attributes.srq_limit = 100000;
    EXPECT_EQ(ibv_modify_srq(shared.shared.get(), &attributes, IBV_SRQ_LIMIT), EINVAL);
}

TEST_F(Control, a_queue_pair_says_what_it_was_told) {
    ibv_qp_attr is{};
    ibv_qp_init_attr made{};
    good(ibv_query_qp(one.pair.get(), &is, 0x1fffff, &made), "ibv_query_qp");
    EXPECT_EQ(is.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(is.cur_qp_state, IBV_QPS_RTS);
    EXPECT_EQ(is.path_mtu, IBV_MTU_4096);
    EXPECT_EQ(is.dest_qp_num, other.pair->qp_num);
    EXPECT_EQ(is.qp_access_flags, kAllAccess);
    EXPECT_EQ(is.timeout, 8);
    EXPECT_EQ(is.retry_cnt, 7);
    EXPECT_EQ(is.rnr_retry, 7);
    EXPECT_EQ(is.min_rnr_timer, 12);
    EXPECT_EQ(is.max_rd_atomic, 16);
    EXPECT_EQ(is.max_dest_rd_atomic, 16);
    EXPECT_EQ(is.port_num, 1);
    EXPECT_EQ(is.ah_attr.is_global, 1);
    EXPECT_GE(is.cap.max_send_wr, 32u);
    EXPECT_GE(is.cap.max_recv_wr, 32u);
    EXPECT_EQ(made.send_cq, one.completions.get());
}

struct Refused : testing::Test {
    Context context = open_device();
    Side one{context.get()};
    int modify(ibv_qp_attr& to, int mask) { return ibv_modify_qp(one.pair.get(), &to, mask); }
};

TEST_F(Refused, attributes_that_a_change_of_state_has_no_place_for) {
    ibv_qp_attr to = state(IBV_QPS_INIT);
    const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    EXPECT_EQ(modify(to, init | IBV_QP_TIMEOUT), EINVAL);
    EXPECT_EQ(modify(to, init | IBV_QP_QKEY), EINVAL);
    to.pkey_index = 1;
    EXPECT_EQ(modify(to, init), EINVAL);
    EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_RESET);
    to_init(one.pair.get());
    to = state(IBV_QPS_RTS);
    EXPECT_EQ(modify(to, IBV_QP_STATE), EINVAL) << "from INIT";
    to = state(IBV_QPS_SQD);
    EXPECT_EQ(modify(to, IBV_QP_STATE), EINVAL) << "from INIT";
    EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_INIT);
}

TEST_F(Refused, values_that_the_port_does_not_have) {
    to_init(one.pair.get());
    const int receive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const auto attributes = [] {
        ibv_qp_attr to = state(IBV_QPS_RTR);
        to.path_mtu = IBV_MTU_4096;
        to.dest_qp_num = 77;
        to.ah_attr.is_global = 1;
        to.ah_attr.port_num = 1;
        return to;
    };
    ibv_qp_attr to = attributes();
    to.path_mtu = static_cast<ibv_mtu>(6);
    EXPECT_EQ(modify(to, receive), EINVAL);
    to = attributes();
    to.ah_attr.grh.sgid_index = 100;
    EXPECT_EQ(modify(to, receive), EINVAL);
    to = attributes();
    to.ah_attr.port_num = 2;
    EXPECT_EQ(modify(to, receive), EINVAL);
    to = attributes();
    to.max_dest_rd_atomic = 17;
    EXPECT_EQ(modify(to, receive), EINVAL);
    to = attributes();
    to.dest_qp_num = 1u << 24;
    EXPECT_EQ(modify(to, receive), EINVAL);
    to = attributes();
    EXPECT_EQ(modify(to, receive), 0);
}

TEST_F(Refused, a_completion_vector_that_does_not_exist) {
    EXPECT_EQ(ibv_create_cq(context.get(), 16, nullptr, nullptr, context->num_comp_vectors),
              nullptr);
    EXPECT_EQ(errno, EINVAL);
}

// Whatever a queue pair needs here that it does not need on a card.
TEST(Limits, a_thousand_queue_pairs_leave_low_descriptors_to_the_program) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max < 4096) GTEST_SKIP() << "the hard limit of open files is below 4096";
    const rlimit usual{1024, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
    {
        const Context context = open_device();
        const Domain domain(good(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
        const Completions completions(
            good(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0), "ibv_create_cq"));
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = completions.get();
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {1, 1, 1, 1, 0};
        std::vector<Pair> pairs;
        for (int i = 0; i < 1100; ++i)
            pairs.emplace_back(good(ibv_create_qp(domain.get(), &attributes), "ibv_create_qp"));
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        EXPECT_GE(fd, 0);
        EXPECT_LT(fd, FD_SETSIZE);
        close(fd);
    }
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace verbatim::interop

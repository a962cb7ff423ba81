// XRC domains, their shared receive queues, initiators and targets through unmodified libibverbs:
// how they are made, shared, changed and destroyed, and what is refused.
#include <cerrno>

#include "xrc_side.hpp"

namespace verbatim::interop {
namespace {

struct XrcObjects : testing::Test {
    Context context = open_device();
    Domain domain{good(ibv_alloc_pd(context.get()), "ibv_alloc_pd")};
    Completions completions{
        good(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0), "ibv_create_cq")};
};

ibv_qp_state change(ibv_qp* pair, ibv_qp_state to, int mask) {
    ibv_qp_attr attributes = state(to);
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = 0x4001;
    attributes.ah_attr.is_global = 1, attributes.ah_attr.port_num = 1;
    const int error = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | mask);
    EXPECT_TRUE(error == 0 || error == EINVAL) << error;
    return state_of(pair);
}

TEST_F(XrcObjects, the_device_says_that_it_has_them) {
    ibv_device_attr facts{};
    good(ibv_query_device(context.get(), &facts), "ibv_query_device");
    EXPECT_NE(facts.device_cap_flags & IBV_DEVICE_XRC, 0u);
}

TEST_F(XrcObjects, a_domain_goes_by_its_file) {
    const ScratchFile file, another;
    EXPECT_EQ(open_domain(context.get(), file.fd, 0), nullptr);
    EXPECT_EQ(errno, EAGAIN);
    const XrcDomain made(good(open_domain(context.get(), file.fd, O_CREAT | O_EXCL), "domain"));
    EXPECT_EQ(open_domain(context.get(), file.fd, O_CREAT | O_EXCL), nullptr);
    EXPECT_EQ(errno, EINVAL);
    // The same file by another number, on another context.
    const Context second = open_device();
    const int copy = dup(file.fd);
    const XrcDomain shared(open_domain(second.get(), copy, 0));
    EXPECT_NE(shared, nullptr);
    close(copy);
    EXPECT_EQ(open_domain(context.get(), another.fd, 0), nullptr);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(XrcObjects, a_file_is_free_again_when_the_last_domain_of_it_is_closed) {
    const ScratchFile file;
    for (int i = 0; i < 2; ++i)
        const XrcDomain made(good(open_domain(context.get(), file.fd, O_CREAT | O_EXCL), "domain"));
    EXPECT_EQ(open_domain(context.get(), file.fd, 0), nullptr);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(XrcObjects, domains_without_a_file_are_many) {
    const XrcDomain one(open_domain(context.get(), -1, 0));
    const XrcDomain other(open_domain(context.get(), -1, O_CREAT | O_EXCL));
    ASSERT_TRUE(one != nullptr && other != nullptr);
    const Pair target(good(make_target(context.get(), one.get()), "target"));
    EXPECT_EQ(open_target(context.get(), other.get(), target->qp_num), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcObjects, a_number_that_is_no_file_is_refused) {
    EXPECT_EQ(open_domain(context.get(), 999999, O_CREAT), nullptr);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(XrcObjects, a_domain_in_use_stays) {
    XrcDomain xrc(good(open_domain(context.get()), "domain"));
    {
        const SharedReceives queue(
            good(make_xrc_queue(domain.get(), xrc.get(), completions.get()), "queue"));
        EXPECT_EQ(ibv_close_xrcd(xrc.get()), EBUSY);
        EXPECT_EQ(ibv_destroy_cq(completions.get()), EBUSY);
        EXPECT_EQ(ibv_dealloc_pd(domain.get()), EBUSY);
    }
    Pair target(good(make_target(context.get(), xrc.get()), "target"));
    EXPECT_EQ(ibv_close_xrcd(xrc.get()), EBUSY);
    const OpenedTarget opened(
        good(open_target(context.get(), xrc.get(), target->qp_num), "opened"));
    target = nullptr;
    EXPECT_EQ(ibv_close_xrcd(xrc.get()), EBUSY);
}

TEST_F(XrcObjects, shared_receive_queues_have_numbers_of_their_own) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    const SharedReceives one(make_xrc_queue(domain.get(), xrc.get(), completions.get()));
    const SharedReceives other(make_xrc_queue(domain.get(), xrc.get(), completions.get()));
    ibv_srq_init_attr plain{nullptr, {32, 2, 0}};
    const SharedReceives basic(good(ibv_create_srq(domain.get(), &plain), "ibv_create_srq"));
    ASSERT_TRUE(one != nullptr && other != nullptr);
    EXPECT_NE(number_of(one.get()), number_of(other.get()));
    EXPECT_NE(number_of(one.get()), number_of(basic.get()));
    EXPECT_NE(number_of(other.get()), number_of(basic.get()));
}

TEST_F(XrcObjects, a_domain_has_room_for_a_thousand_queues) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    std::vector<SharedReceives> queues;
    for (int i = 0; i < 1024; ++i)
        queues.emplace_back(
            good(make_xrc_queue(domain.get(), xrc.get(), completions.get()), "queue"));
    EXPECT_EQ(make_xrc_queue(domain.get(), xrc.get(), completions.get()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    queues.pop_back();
    EXPECT_NE(SharedReceives(make_xrc_queue(domain.get(), xrc.get(), completions.get())), nullptr);
}

TEST_F(XrcObjects, queues_of_xrc_are_asked_and_changed_like_others) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    const SharedReceives queue(make_xrc_queue(domain.get(), xrc.get(), completions.get()));
    ibv_srq_attr facts{};
    good(ibv_query_srq(queue.get(), &facts), "ibv_query_srq");
    EXPECT_GE(facts.max_wr, 32u);
    facts.srq_limit = 5;
    good(ibv_modify_srq(queue.get(), &facts, IBV_SRQ_LIMIT), "ibv_modify_srq");
    ibv_async_event event{};
    good(ibv_get_async_event(context.get(), &event), "ibv_get_async_event");
    EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);  // it is empty
    EXPECT_EQ(event.element.srq, queue.get());
    ibv_ack_async_event(&event);
}

TEST_F(XrcObjects, other_queue_pairs_have_no_queue_of_xrc) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    const SharedReceives queue(make_xrc_queue(domain.get(), xrc.get(), completions.get()));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions.get();
    wanted.srq = queue.get();
    wanted.cap = {4, 0, 1, 0, 0};
    wanted.qp_type = IBV_QPT_RC;
    EXPECT_EQ(ibv_create_qp(domain.get(), &wanted), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcObjects, each_side_has_the_attributes_that_it_needs) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    const Pair target(good(make_target(context.get(), xrc.get()), "target"));
    const Pair initiator(good(make_initiator(domain.get(), completions.get()), "initiator"));
    constexpr int kWay = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    constexpr int kAnswers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    constexpr int kAcknowledged = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
    constexpr int kAsks = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    for (ibv_qp* const pair : {target.get(), initiator.get()}) {
        EXPECT_EQ(change(pair, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT), IBV_QPS_RESET);
        to_init(pair);
    }
    EXPECT_EQ(change(target.get(), IBV_QPS_RTR, kWay), IBV_QPS_INIT);
    EXPECT_EQ(change(target.get(), IBV_QPS_RTR, kWay | kAnswers), IBV_QPS_RTR);
    EXPECT_EQ(change(target.get(), IBV_QPS_RTS, IBV_QP_SQ_PSN), IBV_QPS_RTR);
    EXPECT_EQ(change(target.get(), IBV_QPS_RTS, kAcknowledged), IBV_QPS_RTS);
    // Whatever the other side has is not looked at.
    EXPECT_EQ(change(initiator.get(), IBV_QPS_RTR, kWay | kAnswers), IBV_QPS_RTR);
    EXPECT_EQ(change(initiator.get(), IBV_QPS_RTS, kAcknowledged), IBV_QPS_RTR);
    EXPECT_EQ(change(initiator.get(), IBV_QPS_RTS, kAcknowledged | kAsks), IBV_QPS_RTS);
}

TEST_F(XrcObjects, an_initiator_has_no_receives) {
    const Pair initiator(good(make_initiator(domain.get(), completions.get()), "initiator"));
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    good(ibv_query_qp(initiator.get(), &attributes, IBV_QP_CAP, &made), "ibv_query_qp");
    EXPECT_EQ(made.cap.max_recv_wr, 0u);
    EXPECT_GE(made.cap.max_send_wr, 32u);
    EXPECT_EQ(ibv_destroy_cq(completions.get()), EBUSY);
}

TEST_F(XrcObjects, a_target_is_opened_by_its_number) {
    const ScratchFile file;
    const Context second = open_device();
    const XrcDomain one(good(open_domain(context.get(), file.fd), "domain"));
    const XrcDomain other(good(open_domain(second.get(), file.fd), "domain"));
    Pair target(good(make_target(context.get(), one.get()), "target"));
    OpenedTarget opened(good(open_target(second.get(), other.get(), target->qp_num), "opened"));
    EXPECT_EQ(opened->qp_num, target->qp_num);
    to_init(opened.get());
    EXPECT_EQ(state_of(target.get()), IBV_QPS_INIT);
    // It stays as long as one has it open.
    const std::uint32_t number = target->qp_num;
    target = nullptr;
    EXPECT_EQ(state_of(opened.get()), IBV_QPS_INIT);
    OpenedTarget again(good(open_target(context.get(), one.get(), number), "again"));
    opened = nullptr;
    EXPECT_EQ(state_of(again.get()), IBV_QPS_INIT);
    again = nullptr;
    EXPECT_EQ(open_target(context.get(), one.get(), number), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcObjects, only_targets_are_opened) {
    const XrcDomain xrc(good(open_domain(context.get()), "domain"));
    const Pair initiator(good(make_initiator(domain.get(), completions.get()), "initiator"));
    EXPECT_EQ(open_target(context.get(), xrc.get(), initiator->qp_num), nullptr);
    EXPECT_EQ(errno, EINVAL);
    const Pair target(good(make_target(context.get(), xrc.get()), "target"));
    EXPECT_EQ(open_target(context.get(), xrc.get(), target->qp_num, IBV_QPT_XRC_SEND), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcObjects, a_target_ends_with_the_context_that_made_it) {
    const ScratchFile file;
    const XrcDomain one(good(open_domain(context.get(), file.fd), "domain"));
    OpenedTarget opened;
    {
        // Closed with everything in it, as a program does that goes without a word.
        const ClosedWithAll no_leak;
        ibv_context* const second = open_device().release();
        ibv_xrcd* const other = good(open_domain(second, file.fd), "domain");
        ibv_qp* const target = good(make_target(second, other), "target");
        opened.reset(good(open_target(context.get(), one.get(), target->qp_num), "opened"));
        good(ibv_close_device(second), "ibv_close_device");
    }
    ibv_qp_attr attributes = state(IBV_QPS_ERR);
    EXPECT_EQ(ibv_modify_qp(opened.get(), &attributes, IBV_QP_STATE), EINVAL);
}

}  // namespace
}  // namespace verbatim::interop

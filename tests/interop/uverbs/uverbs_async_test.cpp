// Asynchronous events through unmodified libibverbs: what is raised, of which object, and that
// objects go when their events were acknowledged, or never read.
#include <fcntl.h>
#include <poll.h>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

struct AsyncEvents : testing::Test {
    AsyncEvents() {
        const int flags = fcntl(context->async_fd, F_GETFL);
        good(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), "O_NONBLOCK");
    }
    bool readable(int timeout_ms) const {
        pollfd entry{context->async_fd, POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    }
    // The next event, acknowledged.
    ibv_async_event next() const {
        ibv_async_event event{};
        if (!readable(10000)) throw std::runtime_error("no asynchronous event");
        good(ibv_get_async_event(context.get(), &event), "ibv_get_async_event");
        ibv_ack_async_event(&event);
        return event;
    }

    Context context = open_device();
};

TEST_F(AsyncEvents, none_means_try_again_on_a_nonblocking_descriptor) {
    ibv_async_event event{};
    EXPECT_NE(ibv_get_async_event(context.get(), &event), 0);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(AsyncEvents, a_refused_write_is_an_access_error_of_the_target) {
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    other.receive(0, 64, 5), other.receive(0, 64, 6);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    one.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(other.memory.data(), other.region->rkey ^ 0x100)
        .post(one.pair.get(), 2);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
    const ibv_async_event event = next();
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(event.element.qp, other.pair.get());
    // What came before is received, the rest is flushed.
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(other.poll().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(other.pair.get()), IBV_QPS_ERR);
    EXPECT_FALSE(readable(0));
}

TEST_F(AsyncEvents, what_the_queue_pair_does_not_take_is_a_request_error) {
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    to_init(other.pair.get(), IBV_ACCESS_REMOTE_WRITE);
    to_receive(other.pair.get(), one.pair->qp_num), to_send(other.pair.get());
    one.request(IBV_WR_RDMA_READ, 0, 8)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_INV_REQ_ERR);
    const ibv_async_event event = next();
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
    EXPECT_EQ(event.element.qp, other.pair.get());
}

TEST_F(AsyncEvents, a_message_before_the_queue_pair_may_send_establishes_it) {
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    to_init(other.pair.get()), to_receive(other.pair.get(), one.pair->qp_num);
    other.receive(0, 64);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    const ibv_async_event event = next();
    EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
    EXPECT_EQ(event.element.qp, other.pair.get());
}

TEST_F(AsyncEvents, a_full_completion_queue_is_an_error_of_it_and_of_its_queue_pair) {
    Side one(context.get(), {.completions = 3}), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    for (int i = 0; i < 5; ++i)
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data(), other.region->rkey)
            .post(one.pair.get());
    const ibv_async_event first = next(), second = next();
    const bool queue_first = first.event_type == IBV_EVENT_CQ_ERR;
    const ibv_async_event& queue = queue_first ? first : second;
    const ibv_async_event& pair = queue_first ? second : first;
    EXPECT_EQ(queue.event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(queue.element.cq, one.completions.get());
    EXPECT_EQ(pair.event_type, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(pair.element.qp, one.pair.get());
}

TEST_F(AsyncEvents, the_last_shared_receive_is_reported_when_a_queue_pair_fails) {
    Side one(context.get(), {.shared_receives = true}), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    one.receive(0, 64);
    to_error(one.pair.get());
    const ibv_async_event event = next();
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_EQ(event.element.qp, one.pair.get());
    EXPECT_FALSE(readable(0));
}

TEST_F(AsyncEvents, a_shared_receive_queue_says_once_that_it_runs_low) {
    Side one(context.get(), {.shared_receives = true}), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    for (int i = 0; i < 4; ++i) one.receive(0, 64);
    ibv_srq_attr attributes{};
    attributes.srq_limit = 3;
    good(ibv_modify_srq(one.shared.get(), &attributes, IBV_SRQ_LIMIT), "ibv_modify_srq");
    const auto send = [&] {
        other.request(IBV_WR_SEND, 0, 64).post(other.pair.get());
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    };
    send();
    EXPECT_FALSE(readable(0));
    send();
    const ibv_async_event event = next();
    EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    EXPECT_EQ(event.element.srq, one.shared.get());
    send();
    EXPECT_FALSE(readable(0));
    good(ibv_query_srq(one.shared.get(), &attributes), "ibv_query_srq");
    EXPECT_EQ(attributes.srq_limit, 0u);
    attributes.srq_limit = 2;  // one is left: at once
    good(ibv_modify_srq(one.shared.get(), &attributes, IBV_SRQ_LIMIT), "ibv_modify_srq");
    EXPECT_EQ(next().event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
}

TEST_F(AsyncEvents, an_event_that_nobody_reads_does_not_hold_up_destruction) {
    {
        Side one(context.get(), {.shared_receives = true}), other(context.get());
        connect(one.pair.get(), other.pair->qp_num);
        to_error(one.pair.get());
        EXPECT_TRUE(readable(10000));
    }
    EXPECT_FALSE(readable(0));
}

TEST_F(AsyncEvents, sending_stops_in_the_drained_state_and_goes_on_after_it) {
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    one.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);  // they are connected
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 1);
    ibv_qp_attr to = state(IBV_QPS_SQD);
    to.en_sqd_async_notify = 1;
    good(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "to SQD");
    other.receive(0, 64), other.receive(0, 64);
    EXPECT_EQ(one.poll().wr_id, 1u);
    EXPECT_EQ(next().event_type, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 2);
    ibv_wc none;
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(ibv_poll_cq(one.completions.get(), 1, &none), 0);
    to = state(IBV_QPS_RTS);
    good(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE), "to RTS");
    EXPECT_EQ(one.poll().wr_id, 2u);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::interop

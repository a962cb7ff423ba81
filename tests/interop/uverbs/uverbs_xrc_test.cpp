// Messages and one-sided requests over XRC through unmodified libibverbs: which queue they end in,
// with which keys, and what becomes of them when queue, target or process are not there.
#include <cerrno>

#include "../processes/child_process.hpp"
#include "place.hpp"
#include "xrc_side.hpp"

namespace verbatim::interop {
namespace {

// A sender, and a target with two queues.
struct Xrc : testing::Test {
    void meet(std::uint8_t not_ready_retries = 7) {
        to_init(target.get());
        to_receive(target.get(), sender.pair->qp_num);
        to_send(target.get());
        to_init(sender.pair.get(), 0);
        to_receive(sender.pair.get(), target->qp_num);
        to_send(sender.pair.get(), not_ready_retries);
    }
    ibv_async_event next_event(ibv_context* of) {
        ibv_async_event event{};
        good(ibv_get_async_event(of, &event), "ibv_get_async_event");
        ibv_ack_async_event(&event);
        return event;
    }

    Context context = open_device();
    XrcDomain xrc{good(open_domain(context.get()), "domain")};
    XrcReceiver one{context.get(), xrc.get()}, other{context.get(), xrc.get()};
    Pair target{good(make_target(context.get(), xrc.get()), "target")};
    XrcSender sender{context.get()};
};

TEST_F(Xrc, each_message_ends_in_the_queue_that_it_names) {
    meet();
    for (std::uint64_t i = 0; i < 8; ++i)
        one.receive(64 * i, 64, 100 + i), other.receive(64 * i, 64, 200 + i);
    for (std::uint64_t i = 0; i < 16; ++i) {
        XrcReceiver& to = i % 3 == 0 ? one : other;
        sender.word(0) = i;
        sender.request(IBV_WR_SEND, 0, 8, to.number).post(sender.pair.get(), i);
        if (to.poll().status != IBV_WC_SUCCESS) FAIL();
        EXPECT_EQ(sender.poll().wr_id, i);
        XrcReceiver& not_to = i % 3 == 0 ? other : one;
        ibv_wc none{};
        EXPECT_EQ(ibv_poll_cq(not_to.completions.get(), 1, &none), 0);
        to.receive(64, 64);
    }
}

TEST_F(Xrc, a_completion_says_what_came_where) {
    meet();
    other.receive(128, 4096, 77);
    sender.word(0) = 0x1234;
    Request request = sender.request(IBV_WR_SEND_WITH_IMM, 0, 2000, other.number);
    request.work.imm_data = 0xabcd;
    request.post(sender.pair.get());
    const ibv_wc completion = other.poll();
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.opcode, IBV_WC_RECV);
    EXPECT_EQ(completion.wr_id, 77u);
    EXPECT_EQ(completion.qp_num, target->qp_num);
    EXPECT_EQ(completion.byte_len, 2000u);
    EXPECT_EQ(completion.imm_data, 0xabcdu);
    EXPECT_EQ(other.word(128), 0x1234u);
}

TEST_F(Xrc, long_messages_flow_through) {
    meet();
    one.receive(0, XrcReceiver::kBytes);
    for (std::size_t i = 0; i < XrcSender::kBytes; i += 8) sender.word(i) = i * 3;
    sender.request(IBV_WR_SEND, 0, XrcSender::kBytes, one.number).post(sender.pair.get());
    EXPECT_EQ(one.poll().byte_len, XrcSender::kBytes);
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.memory, sender.memory);
}

TEST_F(Xrc, memory_is_written_read_and_changed_through_a_target) {
    meet();
    sender.word(0) = 5;
    sender.request(IBV_WR_RDMA_WRITE, 0, 8, one.number)
        .to(one.memory.data(), one.region->rkey)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.word(0), 5u);
    sender.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, one.number)
        .atomic(one.memory.data(), one.region->rkey, 10)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.word(8), 5u);
    sender.request(IBV_WR_ATOMIC_CMP_AND_SWP, 16, 8, one.number)
        .atomic(one.memory.data(), one.region->rkey, 15, 99)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.word(16), 15u);
    sender.request(IBV_WR_RDMA_READ, 24, 8, one.number)
        .to(one.memory.data(), one.region->rkey)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.word(24), 99u);
    one.receive(0, 0, 3);
    Request written = sender.request(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, one.number);
    written.work.imm_data = 6;
    written.to(one.memory.data() + 64, one.region->rkey).post(sender.pair.get());
    const ibv_wc completion = one.poll();
    EXPECT_EQ(completion.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(completion.imm_data, 6u);
    EXPECT_EQ(one.word(64), 5u);
}

TEST_F(Xrc, requests_are_built_with_the_queues_number) {
    XrcSender builder(context.get(), true);
    to_init(target.get());
    to_receive(target.get(), builder.pair->qp_num);
    to_init(builder.pair.get(), 0);
    to_receive(builder.pair.get(), target->qp_num);
    to_send(builder.pair.get());
    one.receive(0, 64, 1), other.receive(0, 64, 2);
    ibv_qp_ex* const pair = ibv_qp_to_qp_ex(builder.pair.get());
    const std::uint64_t value = 0x55;
    ibv_wr_start(pair);
    for (const XrcReceiver* const to : {&other, &one}) {
        pair->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send_imm(pair, 9);
        ibv_wr_set_xrc_srqn(pair, to->number);
        ibv_wr_set_inline_data(pair, const_cast<std::uint64_t*>(&value), sizeof value);
    }
    builder.word(0) = 0x66;
    ibv_wr_rdma_write(pair, one.region->rkey,
                      reinterpret_cast<std::uint64_t>(one.memory.data() + 128));
    ibv_wr_set_xrc_srqn(pair, one.number);
    ibv_wr_set_sge(pair, builder.region->lkey,
                   reinterpret_cast<std::uint64_t>(builder.memory.data()), 8);
    good(ibv_wr_complete(pair), "ibv_wr_complete");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(builder.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().wr_id, 1u);
    EXPECT_EQ(other.poll().imm_data, 9u);
    EXPECT_EQ(one.word(0), 0x55u);
    EXPECT_EQ(one.word(128), 0x66u);
}

TEST_F(Xrc, a_queue_that_is_not_in_the_targets_domain_is_an_invalid_request) {
    const XrcDomain foreign_domain(good(open_domain(context.get()), "domain"));
    XrcReceiver foreign(context.get(), foreign_domain.get());
    foreign.receive(0, 64);
    ibv_srq_init_attr plain{nullptr, {32, 2, 0}};
    const SharedReceives basic(good(ibv_create_srq(foreign.domain.get(), &plain), "basic"));
    for (const std::uint32_t queue : {foreign.number, number_of(basic.get()), 0u, 0xffffffu}) {
        meet();
        sender.request(IBV_WR_SEND, 0, 8, queue).post(sender.pair.get(), 1);
        sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get(), 2);
        EXPECT_EQ(sender.poll().status, IBV_WC_REM_INV_REQ_ERR);
        EXPECT_EQ(sender.poll().status, IBV_WC_WR_FLUSH_ERR);
        const ibv_async_event event = next_event(context.get());
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
        EXPECT_EQ(event.element.qp, target.get());
        EXPECT_EQ(state_of(target.get()), IBV_QPS_ERR);
        ibv_wc none{};
        EXPECT_EQ(ibv_poll_cq(foreign.completions.get(), 1, &none), 0);
        EXPECT_EQ(next_event(context.get()).event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
        for (ibv_qp* const pair : {target.get(), sender.pair.get()}) {
            ibv_qp_attr to = state(IBV_QPS_RESET);
            good(ibv_modify_qp(pair, &to, IBV_QP_STATE), "to RESET");
        }
    }
}

TEST_F(Xrc, keys_are_those_of_the_named_queues_protection_domain) {
    meet();
    one.word(0) = other.word(0) = 1;
    sender.word(0) = 2;
    for (XrcReceiver* const to : {&one, &other, &one}) {
        sender.request(IBV_WR_RDMA_WRITE, 0, 8, to->number)
            .to(to->memory.data(), to->region->rkey)
            .post(sender.pair.get());
        EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(one.word(0), 2u);
    EXPECT_EQ(other.word(0), 2u);
    sender.request(IBV_WR_RDMA_WRITE, 8, 8, one.number)
        .to(other.memory.data(), other.region->rkey)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(other.word(0), 2u);
    EXPECT_EQ(next_event(context.get()).event_type, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(Xrc, a_receive_that_is_too_short_fails_on_both_sides) {
    meet();
    one.receive(0, 16, 4);
    sender.request(IBV_WR_SEND, 0, 64, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_INV_REQ_ERR);
    const ibv_wc completion = one.poll();
    EXPECT_EQ(completion.status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(completion.wr_id, 4u);
    EXPECT_EQ(state_of(target.get()), IBV_QPS_ERR);
}

TEST_F(Xrc, a_message_waits_for_its_receive) {
    meet();
    other.receive(0, 64);
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get(), 1);
    sender.request(IBV_WR_SEND, 0, 8, other.number).post(sender.pair.get(), 2);
    ibv_wc none{};
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(ibv_poll_cq(other.completions.get(), 1, &none), 0);
    one.receive(0, 64);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.poll().wr_id, 1u);
}

TEST_F(Xrc, no_receive_is_an_error_where_the_sender_has_no_patience) {
    meet(0);
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(Xrc, a_queue_that_was_destroyed_is_none) {
    meet();
    one.receive(0, 64);
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    one.queue = nullptr;
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Xrc, a_message_that_waits_for_a_queue_is_refused_when_that_goes) {
    meet();
    other.receive(0, 64);
    sender.request(IBV_WR_SEND, 0, 8, other.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    ibv_wc none{};
    for (int i = 0; i < 100; ++i) EXPECT_EQ(ibv_poll_cq(one.completions.get(), 1, &none), 0);
    one.queue = nullptr;
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(next_event(context.get()).event_type, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(Xrc, a_target_that_goes_is_a_peer_that_does_not_answer) {
    meet();
    one.receive(0, 64, 9);
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    one.receive(0, 64, 10);
    target = nullptr;
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_RETRY_EXC_ERR);
    // The queue goes on with another target: nothing of it was lost.
    EXPECT_EQ(one.poll().wr_id, 9u);
    target.reset(good(make_target(context.get(), xrc.get()), "target"));
    ibv_qp_attr to = state(IBV_QPS_RESET);
    good(ibv_modify_qp(sender.pair.get(), &to, IBV_QP_STATE), "to RESET");
    meet();
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(one.poll().wr_id, 10u);
}

TEST_F(Xrc, an_initiator_in_error_flushes) {
    meet();
    to_error(sender.pair.get());
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Xrc, an_event_tells_of_a_completion_from_any_target) {
    XrcReceiver sleeper(context.get(), xrc.get(), true);
    const Pair later(good(make_target(context.get(), xrc.get()), "target"));
    XrcSender second(context.get());
    meet();
    to_init(later.get());
    to_receive(later.get(), second.pair->qp_num);
    to_init(second.pair.get(), 0);
    to_receive(second.pair.get(), later->qp_num);
    to_send(second.pair.get());
    for (XrcSender* const from : {&sender, &second, &sender}) {
        sleeper.receive(0, 64);
        good(ibv_req_notify_cq(sleeper.completions.get(), 0), "ibv_req_notify_cq");
        from->request(IBV_WR_SEND, 0, 8, sleeper.number).post(from->pair.get());
        ibv_cq* queue = nullptr;
        void* its_context = nullptr;
        good(ibv_get_cq_event(sleeper.channel.get(), &queue, &its_context), "ibv_get_cq_event");
        EXPECT_EQ(queue, sleeper.completions.get());
        ibv_ack_cq_events(queue, 1);
        const ibv_wc completion = sleeper.poll();
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
        EXPECT_EQ(completion.qp_num, from == &second ? later->qp_num : target->qp_num);
        EXPECT_EQ(from->poll().status, IBV_WC_SUCCESS);
    }
}

// Two contexts of a process with one domain: the target of one, a queue of the other.
struct SharedXrc : Xrc {
    ~SharedXrc() override { target = nullptr; }  // before its domain
    ScratchFile file;
    Context second = open_device();
    XrcDomain ours{good(open_domain(context.get(), file.fd), "domain")};
    XrcDomain theirs{good(open_domain(second.get(), file.fd, 0), "domain")};
    XrcReceiver far{second.get(), theirs.get()};
    Pair shared_target{good(make_target(context.get(), ours.get()), "target")};

    void meet_there() {
        target.swap(shared_target);
        meet();
    }
};

TEST_F(SharedXrc, a_message_reaches_a_queue_of_another_context) {
    meet_there();
    far.receive(0, 4096, 31);
    sender.word(0) = 0x77;
    sender.request(IBV_WR_SEND, 0, 3000, far.number).post(sender.pair.get());
    const ibv_wc completion = far.poll();
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.wr_id, 31u);
    EXPECT_EQ(completion.qp_num, target->qp_num);
    EXPECT_EQ(far.word(0), 0x77u);
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
}

TEST_F(SharedXrc, memory_of_another_context_is_not_reached) {
    meet_there();
    sender.request(IBV_WR_RDMA_WRITE, 0, 8, far.number)
        .to(far.memory.data(), far.region->rkey)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(far.word(0), 0u);
}

TEST_F(SharedXrc, a_context_goes_while_the_other_goes_on) {
    XrcReceiver near(context.get(), ours.get());
    meet_there();
    far.receive(0, 64), near.receive(0, 64, 8);
    sender.request(IBV_WR_SEND, 0, 8, far.number).post(sender.pair.get());
    EXPECT_EQ(far.poll().status, IBV_WC_SUCCESS);
    far.queue = nullptr;
    sender.request(IBV_WR_SEND, 0, 8, near.number).post(sender.pair.get());
    EXPECT_EQ(near.poll().wr_id, 8u);
}

TEST_F(SharedXrc, everyone_who_has_a_target_open_hears_of_its_end) {
    const OpenedTarget opened(
        good(open_target(second.get(), theirs.get(), shared_target->qp_num), "opened"));
    meet_there();
    sender.request(IBV_WR_SEND, 0, 8, one.number).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_REM_INV_REQ_ERR);
    const ibv_async_event first = next_event(context.get()), same = next_event(second.get());
    EXPECT_EQ(first.event_type, IBV_EVENT_QP_REQ_ERR);
    EXPECT_EQ(first.element.qp, target.get());
    EXPECT_EQ(same.event_type, IBV_EVENT_QP_REQ_ERR);
    EXPECT_EQ(same.element.qp, opened.get());
}

TEST_F(SharedXrc, a_forked_child_has_domains_of_its_own) {
    meet_there();
    Child child([&] {
        const Context own = open_device();
        const XrcDomain fresh(
            good(open_domain(own.get(), file.fd, O_CREAT | O_EXCL), "the child's domain"));
        const Pair its(good(make_target(own.get(), fresh.get()), "target"));
        const XrcReceiver receiver(own.get(), fresh.get());
        EXPECT_EQ(open_target(own.get(), fresh.get(), target->qp_num), nullptr);
        EXPECT_NE(ibv_close_xrcd(ours.get()), 0);
        return testing::Test::HasFailure() ? 2 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
    far.receive(0, 64, 12);
    sender.request(IBV_WR_SEND, 0, 8, far.number).post(sender.pair.get());
    EXPECT_EQ(far.poll().wr_id, 12u);
}

// What one process tells the other.
struct XrcPlace {
    std::uint32_t target, queue, key;
    std::uint64_t address;
};

struct XrcProcesses : testing::Test {
    XrcProcesses() { EXPECT_EQ(pipe(to_child) | pipe(to_parent), 0); }
    ~XrcProcesses() override {
        for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
    }
    int to_child[2], to_parent[2];
};

TEST_F(XrcProcesses, one_process_sends_to_another_until_that_is_killed) {
    Child child([&] {
        const Context context = open_device();
        const XrcDomain xrc(good(open_domain(context.get()), "domain"));
        XrcReceiver receiver(context.get(), xrc.get());
        const Pair target(good(make_target(context.get(), xrc.get()), "target"));
        to_init(target.get());
        to_receive(target.get(), take<std::uint32_t>(to_child[0]));
        receiver.receive(0, 4096);
        tell(to_parent[1], XrcPlace{target->qp_num, receiver.number, receiver.region->rkey,
                                    reinterpret_cast<std::uint64_t>(receiver.memory.data())});
        if (receiver.poll().byte_len != 4000) return 2;
        tell(to_parent[1], receiver.word(0));
        take<char>(to_child[0]);  // never comes
        return 3;
    });
    const Context context = open_device();
    XrcSender sender(context.get());
    tell(to_child[1], sender.pair->qp_num);
    const auto peer = take<XrcPlace>(to_parent[0]);
    to_init(sender.pair.get(), 0);
    to_receive(sender.pair.get(), peer.target);
    to_send(sender.pair.get());
    sender.word(0) = 4711;
    sender.request(IBV_WR_SEND, 0, 4000, peer.queue).post(sender.pair.get());
    EXPECT_EQ(take<std::uint64_t>(to_parent[0]), 4711u);
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    sender.request(IBV_WR_RDMA_WRITE, 0, 8, peer.queue)
        .to(reinterpret_cast<void*>(peer.address + 64), peer.key)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    sender.request(IBV_WR_RDMA_READ, 8, 8, peer.queue)
        .to(reinterpret_cast<void*>(peer.address + 64), peer.key)
        .post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(sender.word(8), 4711u);
    child.end();
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    sender.request(IBV_WR_SEND, 0, 8, peer.queue).post(sender.pair.get());
    EXPECT_EQ(sender.poll().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace verbatim::interop

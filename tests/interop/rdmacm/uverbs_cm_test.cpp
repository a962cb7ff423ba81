// Connections of unmodified librdmacm between two channels of one process.
#include <fcntl.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <vector>

#include "cm_ids.hpp"

namespace verbatim::interop {
namespace {

struct Connections : testing::Test {
    // The asking side up to the listener's event.
    Event ask(std::string_view data = {}) {
        resolve(asking, asker, port);
        make_queue_pair(asker);
        rdma_conn_param wanted = parameters(data);
        done(rdma_connect(asker.get(), &wanted), "rdma_connect");
        return take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST);
    }
    void connect() {
        const Event request = ask();
        answerer.reset(request->id);
        make_queue_pair(answerer);
        rdma_conn_param wanted = parameters();
        done(rdma_accept(answerer.get(), &wanted), "rdma_accept");
        take_event(asking, RDMA_CM_EVENT_ESTABLISHED);
        take_event(listening, RDMA_CM_EVENT_ESTABLISHED);
    }

    EventChannel listening = open_channel(), asking = open_channel();
    Id listener = make_id(listening), asker = make_id(asking), answerer;
    std::uint16_t port = listen_at(listener);
};

TEST_F(Connections, both_sides_learn_addresses_parameters_and_private_data) {
    const Event request = ask("who is there");
    answerer.reset(request->id);
    const rdma_conn_param& asked = request->param.conn;
    EXPECT_EQ(private_data(asked.private_data, asked.private_data_len), "who is there");
    EXPECT_EQ(asked.qp_num, asker->qp->qp_num);
    EXPECT_EQ(asked.responder_resources, 2);
    EXPECT_EQ(request->listen_id, listener.get());
    EXPECT_EQ(rdma_get_src_port(answerer.get()), htons(port));
    EXPECT_EQ(rdma_get_dst_port(answerer.get()), rdma_get_src_port(asker.get()));
    EXPECT_NE(rdma_get_src_port(asker.get()), 0);

    make_queue_pair(answerer);
    rdma_conn_param answer = parameters("me");
    done(rdma_accept(answerer.get(), &answer), "rdma_accept");
    const Event reply = take_event(asking, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(private_data(reply->param.conn.private_data, reply->param.conn.private_data_len),
              "me");
    EXPECT_EQ(reply->param.conn.qp_num, answerer->qp->qp_num);
    EXPECT_EQ(take_event(listening, RDMA_CM_EVENT_ESTABLISHED)->id, answerer.get());
}

TEST_F(Connections, carry_data) {
    connect();
    std::array<char, 64> sent{"through the queue pairs of the connection"}, received{};
    ibv_mr* const from = rdma_reg_msgs(asker.get(), sent.data(), sent.size());
    ibv_mr* const to = rdma_reg_msgs(answerer.get(), received.data(), received.size());
    done(rdma_post_recv(answerer.get(), nullptr, received.data(), received.size(), to), "receive");
    done(rdma_post_send(asker.get(), nullptr, sent.data(), sent.size(), from, 0), "send");
    ibv_wc completion{};
    EXPECT_EQ(rdma_get_recv_comp(answerer.get(), &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received, sent);
    EXPECT_EQ(rdma_get_send_comp(asker.get(), &completion), 1);
    EXPECT_EQ(rdma_dereg_mr(from) | rdma_dereg_mr(to), 0);
}

TEST_F(Connections, a_disconnect_is_an_event_at_both_sides) {
    connect();
    done(rdma_disconnect(asker.get()), "rdma_disconnect");
    EXPECT_EQ(take_event(listening, RDMA_CM_EVENT_DISCONNECTED)->id, answerer.get());
    EXPECT_FALSE(has_event(asking, 50)) << "the other side has not agreed yet";
    done(rdma_disconnect(answerer.get()), "rdma_disconnect");
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_DISCONNECTED)->status, 0);
    take_event(asking, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    take_event(listening, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(Connections, an_identifier_that_goes_disconnects_its_peer) {
    connect();
    answerer.reset();
    take_event(asking, RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(Connections, a_rejection_carries_private_data) {
    const Event request = ask();
    answerer.reset(request->id);
    done(rdma_reject(answerer.get(), "not you", 7), "rdma_reject");
    const Event event = take_event(asking, RDMA_CM_EVENT_REJECTED);
    constexpr int kByConsumer = 28;
    EXPECT_EQ(event->status, kByConsumer);
    EXPECT_EQ(private_data(event->param.conn.private_data, event->param.conn.private_data_len),
              "not you");
}

TEST_F(Connections, requests_that_nobody_saw_are_rejected_with_the_listener) {
    resolve(asking, asker, port);
    make_queue_pair(asker);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    ASSERT_TRUE(has_event(listening, 20000));
    listener.reset();
    take_event(asking, RDMA_CM_EVENT_REJECTED);
}

TEST_F(Connections, an_asker_that_goes_cannot_be_accepted) {
    const Event request = ask();
    answerer.reset(request->id);
    make_queue_pair(answerer);
    asker.reset();
    rdma_conn_param wanted = parameters();
    EXPECT_EQ(rdma_accept(answerer.get(), &wanted), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Connections, more_requests_than_the_backlog_are_rejected) {
    const Id small = make_id(listening);
    const std::uint16_t to = listen_at(small, "127.0.0.1", 2);
    std::vector<Id> askers;
    const auto ask_once = [&] {
        askers.push_back(make_id(asking));
        resolve(asking, askers.back(), to);
        make_queue_pair(askers.back());
        rdma_conn_param wanted = parameters();
        done(rdma_connect(askers.back().get(), &wanted), "rdma_connect");
    };
    ask_once();
    ask_once();
    EXPECT_FALSE(has_event(asking, 50));
    ask_once();
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_REJECTED)->id, askers.back().get());
    // One that the program has seen makes room.
    const Id first(take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    ask_once();
    EXPECT_FALSE(has_event(asking, 50));
    const Id second(take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    const Id third(take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
}

TEST_F(Connections, where_nobody_listens_is_a_rejection) {
    const Id other = make_id(listening);
    Address at = address("127.0.0.1");
    done(rdma_bind_addr(other.get(), at.get()), "rdma_bind_addr");
    resolve(asking, asker, ntohs(rdma_get_src_port(other.get())));
    make_queue_pair(asker);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    constexpr int kNoSuchService = 8;
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_REJECTED)->status, kNoSuchService);
}

TEST_F(Connections, private_data_beyond_the_message_are_refused) {
    resolve(asking, asker, port);
    make_queue_pair(asker);
    const std::string long_text(57, 'x');
    rdma_conn_param wanted = parameters(long_text);
    EXPECT_EQ(rdma_connect(asker.get(), &wanted), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Connections, an_identifier_moves_to_another_channel_with_its_events) {
    const EventChannel other = open_channel();
    resolve(asking, asker, port);
    make_queue_pair(asker);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    ASSERT_TRUE(has_event(listening, 20000));
    done(rdma_migrate_id(listener.get(), other.get()), "rdma_migrate_id");
    EXPECT_FALSE(has_event(listening, 0));
    answerer.reset(take_event(other, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    EXPECT_EQ(answerer->channel, other.get());
    answerer.reset();
    listener.reset();
}

TEST_F(Connections, a_channel_that_does_not_block_says_so) {
    fcntl(asking->fd, F_SETFL, O_NONBLOCK);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(asking.get(), &event), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Connections, multicast_is_refused) {
    resolve(asking, asker, port);
    Address group = address("239.1.2.3");
    EXPECT_EQ(rdma_join_multicast(asker.get(), group.get(), nullptr), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

struct Ports : testing::Test {
    int bind(const Id& id, const char* where, std::uint16_t port) {
        Address at = address(where, port);
        return rdma_bind_addr(id.get(), at.get()) == 0 ? 0 : errno;
    }
    EventChannel channel = open_channel();
    Id first = make_id(channel), second = make_id(channel);
};

TEST_F(Ports, are_taken_once) {
    const std::uint16_t port = listen_at(first);
    EXPECT_EQ(bind(second, "127.0.0.1", port), EADDRINUSE);
    EXPECT_EQ(bind(second, "0.0.0.0", port), EADDRINUSE);
    EXPECT_EQ(bind(second, "::", port), EADDRINUSE);
    first.reset();
    EXPECT_EQ(bind(second, "127.0.0.1", port), 0);
}

TEST_F(Ports, differ_by_address_family_and_space) {
    const std::uint16_t port = listen_at(first);
    EXPECT_EQ(bind(second, "127.0.0.2", port), 0);
    const Id six = make_id(channel), datagrams = make_id(channel, RDMA_PS_UDP);
    EXPECT_EQ(bind(six, "::1", port), 0);
    EXPECT_EQ(bind(datagrams, "127.0.0.1", port), 0);
}

TEST_F(Ports, are_shared_by_those_who_say_so_until_one_listens) {
    int yes = 1;
    const Id third = make_id(channel);
    for (const Id* id : std::array<const Id*, 3>{&first, &second, &third})
        done(rdma_set_option(id->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes),
             "rdma_set_option");
    ASSERT_EQ(bind(first, "127.0.0.1", 0), 0);
    const std::uint16_t port = ntohs(rdma_get_src_port(first.get()));
    EXPECT_EQ(bind(second, "127.0.0.1", port), 0);
    EXPECT_EQ(rdma_listen(first.get(), 1), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    first.reset();
    EXPECT_EQ(rdma_listen(second.get(), 1), 0);
    EXPECT_EQ(bind(third, "127.0.0.1", port), EADDRINUSE);
}

TEST_F(Ports, of_strangers_cannot_be_bound) {
    EXPECT_EQ(bind(first, "198.51.100.7", 0), EADDRNOTAVAIL);
}

TEST_F(Ports, of_strangers_are_not_found) {
    Address to = address("198.51.100.7", 5000);
    done(rdma_resolve_addr(first.get(), nullptr, to.get(), 1000), "rdma_resolve_addr");
    EXPECT_EQ(take_event(channel, RDMA_CM_EVENT_ADDR_ERROR)->status, -EHOSTUNREACH);
}

TEST_F(Ports, of_version_6_wildcards_serve_both_versions) {
    const std::uint16_t port = listen_at(first, "::");
    EXPECT_EQ(bind(second, "0.0.0.0", port), EADDRINUSE);
    rdma_conn_param wanted = parameters();
    for (const char* const where : {"127.0.0.1", "::1"}) {
        const EventChannel asking = open_channel();
        const Id asker = make_id(asking);
        resolve(asking, asker, port, where);
        make_queue_pair(asker);
        done(rdma_connect(asker.get(), &wanted), "rdma_connect");
        const Id answerer(take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
        EXPECT_EQ(rdma_get_local_addr(answerer.get())->sa_family, address(where).get()->sa_family);
    }
}

struct Datagrams : testing::Test {
    Datagrams() {
        port = listen_at(listener);
        resolve(asking, asker, port);
    }
    EventChannel listening = open_channel(), asking = open_channel();
    Id listener = make_id(listening, RDMA_PS_UDP), asker = make_id(asking, RDMA_PS_UDP);
    std::uint16_t port = 0;
};

TEST_F(Datagrams, find_the_queue_pair_and_the_way_back) {
    make_queue_pair(asker, IBV_QPT_UD);
    rdma_conn_param wanted = parameters("hello");
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    const Event request = take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(private_data(request->param.ud.private_data, request->param.ud.private_data_len),
              "hello");
    const Id answerer(request->id);
    make_queue_pair(answerer, IBV_QPT_UD);
    std::array<char, 128> arrived{}, text{"a datagram"};
    ibv_mr* const to = rdma_reg_msgs(answerer.get(), arrived.data(), arrived.size());
    ibv_mr* const from = rdma_reg_msgs(asker.get(), text.data(), text.size());
    done(rdma_post_recv(answerer.get(), nullptr, arrived.data(), arrived.size(), to), "receive");
    wanted.qp_num = answerer->qp->qp_num;
    done(rdma_accept(answerer.get(), &wanted), "rdma_accept");

    const Event reply = take_event(asking, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(reply->param.ud.qp_num, answerer->qp->qp_num);
    ibv_ah_attr way = reply->param.ud.ah_attr;
    ibv_ah* const peer = ibv_create_ah(asker->pd, &way);
    ASSERT_NE(peer, nullptr);
    done(rdma_post_ud_send(asker.get(), nullptr, text.data(), 16, from, 0, peer,
                           reply->param.ud.qp_num),
         "send");
    ibv_wc completion{};
    ASSERT_EQ(rdma_get_recv_comp(answerer.get(), &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_STREQ(arrived.data() + sizeof(ibv_grh), "a datagram");
    EXPECT_EQ(completion.src_qp, asker->qp->qp_num);
    ibv_ah* const back = ibv_create_ah_from_wc(answerer->pd, &completion,
                                               reinterpret_cast<ibv_grh*>(arrived.data()), 1);
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(rdma_get_send_comp(asker.get(), &completion), 1);
    EXPECT_EQ(ibv_destroy_ah(back) | ibv_destroy_ah(peer), 0);
    EXPECT_EQ(rdma_dereg_mr(from) | rdma_dereg_mr(to), 0);
}

TEST_F(Datagrams, where_nobody_listens_are_unreachable) {
    listener.reset();
    make_queue_pair(asker, IBV_QPT_UD);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    constexpr int kUnsupported = 1;
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_UNREACHABLE)->status, kUnsupported);
}

TEST_F(Datagrams, that_are_rejected_are_unreachable) {
    make_queue_pair(asker, IBV_QPT_UD);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    const Id answerer(take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    done(rdma_reject(answerer.get(), "no", 2), "rdma_reject");
    const Event event = take_event(asking, RDMA_CM_EVENT_UNREACHABLE);
    constexpr int kRejected = 2;
    EXPECT_EQ(event->status, kRejected);
    EXPECT_EQ(private_data(event->param.ud.private_data, event->param.ud.private_data_len), "no");
}

// The port space in which programs say the type of their queue pairs.
struct TypedPorts : testing::Test {
    // Listens for initiators of XRC; the port.
    std::uint16_t listen_for_xrc(Id& id) {
        rdma_addrinfo wanted{}, *found = nullptr;
        wanted.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST;
        wanted.ai_port_space = RDMA_PS_IB;
        wanted.ai_qp_type = IBV_QPT_XRC_RECV;
        done(rdma_getaddrinfo("127.0.0.1", nullptr, &wanted, &found), "rdma_getaddrinfo");
        rdma_cm_id* made = nullptr;
        done(rdma_create_ep(&made, found, nullptr, nullptr), "rdma_create_ep");
        rdma_freeaddrinfo(found);
        id.reset(made);
        done(rdma_migrate_id(made, listening.get()), "rdma_migrate_id");
        done(rdma_listen(made, 4), "rdma_listen");
        return ntohs(rdma_get_src_port(made));
    }
    void ask(const Id& id, std::uint16_t port) {
        resolve(asking, id, port);
        make_queue_pair(id);
        rdma_conn_param wanted = parameters();
        done(rdma_connect(id.get(), &wanted), "rdma_connect");
    }
    EventChannel listening = open_channel(), asking = open_channel();
};

TEST_F(TypedPorts, connect_by_ip_addresses) {
    const Id listener = make_id(listening, RDMA_PS_IB), asker = make_id(asking, RDMA_PS_IB);
    ask(asker, listen_at(listener));
    const Event request = take_event(listening, RDMA_CM_EVENT_CONNECT_REQUEST);
    const Id answerer(request->id);
    make_queue_pair(answerer);
    rdma_conn_param wanted = parameters();
    done(rdma_accept(answerer.get(), &wanted), "rdma_accept");
    take_event(asking, RDMA_CM_EVENT_ESTABLISHED);
    take_event(listening, RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(TypedPorts, are_none_of_the_other_port_spaces) {
    const Id listener = make_id(listening, RDMA_PS_IB), asker = make_id(asking);
    ask(asker, listen_at(listener));
    constexpr int kNoSuchService = 8;
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_REJECTED)->status, kNoSuchService);
}

TEST_F(TypedPorts, take_requests_of_their_type_only) {
    Id listener;
    const std::uint16_t port = listen_for_xrc(listener);
    const Id asker = make_id(asking, RDMA_PS_IB);
    ask(asker, port);
    constexpr int kByConsumer = 28;
    EXPECT_EQ(take_event(asking, RDMA_CM_EVENT_REJECTED)->status, kByConsumer);
    EXPECT_FALSE(has_event(listening, 0));
}

}  // namespace
}  // namespace verbatim::interop

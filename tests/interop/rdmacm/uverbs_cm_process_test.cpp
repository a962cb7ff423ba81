// Connections between processes, one of which dies, and peers that do not answer. The test itself
// never uses librdmacm: what it opened could not be used in a forked child.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "../processes/child_process.hpp"
#include "cm_ids.hpp"

namespace verbatim::interop {
namespace {

constexpr std::chrono::seconds kPatience(30);

struct CmProcesses : testing::Test {
    CmProcesses() { EXPECT_EQ(pipe(ports) | pipe(news), 0); }
    ~CmProcesses() override {
        for (const int fd : {ports[0], ports[1], news[0], news[1]}) close(fd);
    }
    void tell_port(std::uint16_t port) const {
        if (write(ports[1], &port, sizeof port) != sizeof port) throw std::runtime_error("pipe");
    }
    std::uint16_t take_port() const {
        std::uint16_t port = 0;
        if (read(ports[0], &port, sizeof port) != sizeof port) throw std::runtime_error("pipe");
        return port;
    }
    void tell_news() const {
        if (write(news[1], "!", 1) != 1) throw std::runtime_error("pipe");
    }
    void await_news(int count) const {
        for (char byte; count > 0; --count)
            if (read(news[0], &byte, 1) != 1) throw std::runtime_error("pipe");
    }

    // Both tell when they are connected, and end well when they are disconnected.
    void serve() const {
        const EventChannel channel = open_channel();
        const Id listener = make_id(channel);
        tell_port(listen_at(listener));
        const Id id(take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST)->id);
        make_queue_pair(id);
        rdma_conn_param wanted = parameters();
        done(rdma_accept(id.get(), &wanted), "rdma_accept");
        take_event(channel, RDMA_CM_EVENT_ESTABLISHED);
        tell_news();
        take_event(channel, RDMA_CM_EVENT_DISCONNECTED);
    }
    void ask() const {
        const EventChannel channel = open_channel();
        const Id id = make_id(channel);
        resolve(channel, id, take_port());
        make_queue_pair(id);
        rdma_conn_param wanted = parameters();
        done(rdma_connect(id.get(), &wanted), "rdma_connect");
        take_event(channel, RDMA_CM_EVENT_ESTABLISHED);
        tell_news();
        take_event(channel, RDMA_CM_EVENT_DISCONNECTED);
    }

    int ports[2], news[2];
};

TEST_F(CmProcesses, a_killed_listener_disconnects_the_asker) {
    const Child listener([this] { serve(); });
    Child asker([this] { ask(); });
    await_news(2);
    listener.end();
    EXPECT_EQ(asker.wait(kPatience), 0);
}

TEST_F(CmProcesses, a_killed_asker_disconnects_the_listener) {
    Child listener([this] { serve(); });
    const Child asker([this] { ask(); });
    await_news(2);
    asker.end();
    EXPECT_EQ(listener.wait(kPatience), 0);
}

TEST_F(CmProcesses, a_process_that_died_before_it_accepted_has_rejected) {
    const Child listener([this] {
        const EventChannel channel = open_channel();
        const Id id = make_id(channel);
        tell_port(listen_at(id));
        take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        tell_news();
        pause();
    });
    Child asker([this] {
        const EventChannel channel = open_channel();
        const Id id = make_id(channel);
        resolve(channel, id, take_port());
        make_queue_pair(id);
        rdma_conn_param wanted = parameters();
        done(rdma_connect(id.get(), &wanted), "rdma_connect");
        take_event(channel, RDMA_CM_EVENT_REJECTED);
    });
    await_news(1);
    listener.end();
    EXPECT_EQ(asker.wait(kPatience), 0);
}

TEST_F(CmProcesses, a_peer_that_does_not_answer_in_time_is_unreachable) {
    Child both([] {
        setenv("VERBATIM_SOFTNIC_CM_TIMEOUT_MS", "200", 1);
        const EventChannel listening = open_channel(), asking = open_channel();
        const Id listener = make_id(listening), asker = make_id(asking);
        resolve(asking, asker, listen_at(listener));
        make_queue_pair(asker);
        rdma_conn_param wanted = parameters();
        done(rdma_connect(asker.get(), &wanted), "rdma_connect");
        const Event late = take_event(asking, RDMA_CM_EVENT_UNREACHABLE);
        if (late->status != -ETIMEDOUT) throw std::runtime_error("not timed out");
    });
    EXPECT_EQ(both.wait(kPatience), 0);
}

TEST_F(CmProcesses, a_port_that_another_process_has_is_taken_until_that_ends) {
    const auto holder = std::make_unique<Child>([this] {
        const EventChannel channel = open_channel();
        const Id id = make_id(channel);
        tell_port(listen_at(id));
        tell_news();
        pause();
    });
    await_news(1);
    const std::uint16_t port = take_port();
    const auto bind = [port] {
        const EventChannel channel = open_channel();
        const Id id = make_id(channel);
        Address at = address("127.0.0.1", port);
        done(rdma_bind_addr(id.get(), at.get()), "rdma_bind_addr");
    };
    Child while_it_lives([&] {
        try {
            bind();
        } catch (const std::exception&) {
            if (errno == EADDRINUSE) return;
        }
        throw std::runtime_error("bound, or another error");
    });
    EXPECT_EQ(while_it_lives.wait(kPatience), 0);
    holder->end();
    EXPECT_EQ(holder->wait(kPatience), 128 + SIGKILL);
    Child afterwards(bind);
    EXPECT_EQ(afterwards.wait(kPatience), 0);
}

}  // namespace
}  // namespace verbatim::interop

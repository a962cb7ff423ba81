// Identifiers, channels and events of unmodified librdmacm, and what tests do with them.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <verbatim/uverbs/uverbs.hpp>

namespace verbatim::interop {

// Of librdmacm's kind: 0, or -1 and errno.
inline void done(int result, const char* what) {
    if (result != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

struct EventChannelEnd {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using EventChannel = std::unique_ptr<rdma_event_channel, EventChannelEnd>;

struct IdEnd {
    void operator()(rdma_cm_id* id) const {
        if (id->qp != nullptr) rdma_destroy_qp(id);
        EXPECT_EQ(rdma_destroy_id(id), 0);
    }
};
using Id = std::unique_ptr<rdma_cm_id, IdEnd>;

struct EventEnd {
    void operator()(rdma_cm_event* event) const { rdma_ack_cm_event(event); }
};
using Event = std::unique_ptr<rdma_cm_event, EventEnd>;

inline EventChannel open_channel() {
    // Also keeps the linker from dropping the library.
    if (uverbs::sysfs_root() == nullptr) throw std::runtime_error("no device");
    EventChannel channel(rdma_create_event_channel());
    if (channel == nullptr) throw std::runtime_error("no connection manager");
    return channel;
}

inline Id make_id(const EventChannel& channel, rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = nullptr;
    done(rdma_create_id(channel.get(), &id, nullptr, space), "rdma_create_id");
    return Id(id);
}

inline bool has_event(const EventChannel& channel, int patience_ms) {
    pollfd entry{channel->fd, POLLIN, 0};
    return poll(&entry, 1, patience_ms) == 1;
}

// The next event, which must be of this kind.
inline Event take_event(const EventChannel& channel, rdma_cm_event_type type) {
    constexpr int kPatienceMs = 20000;
    if (!has_event(channel, kPatienceMs))
        throw std::runtime_error(std::string("no ") + rdma_event_str(type));
    rdma_cm_event* event = nullptr;
    done(rdma_get_cm_event(channel.get(), &event), "rdma_get_cm_event");
    Event taken(event);
    if (event->event != type)
        throw std::runtime_error(std::string(rdma_event_str(event->event)) + " instead of " +
                                 rdma_event_str(type) + ", status " +
                                 std::to_string(event->status));
    return taken;
}

struct Address {
    sockaddr_storage storage{};
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
inline Address address(const char* text, std::uint16_t port = 0) {
    Address made;
    auto* const four = reinterpret_cast<sockaddr_in*>(&made.storage);
    auto* const six = reinterpret_cast<sockaddr_in6*>(&made.storage);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
    }
    return made;
}

inline std::uint16_t listen_at(const Id& id, const char* where = "127.0.0.1", int backlog = 8) {
    Address at = address(where);
    done(rdma_bind_addr(id.get(), at.get()), "rdma_bind_addr");
    done(rdma_listen(id.get(), backlog), "rdma_listen");
    return ntohs(rdma_get_src_port(id.get()));
}

inline void resolve(const EventChannel& channel, const Id& id, std::uint16_t port,
                    const char* where = "127.0.0.1") {
    Address to = address(where, port);
    done(rdma_resolve_addr(id.get(), nullptr, to.get(), 1000), "rdma_resolve_addr");
    take_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    done(rdma_resolve_route(id.get(), 1000), "rdma_resolve_route");
    take_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

inline void make_queue_pair(const Id& id, ibv_qp_type type = IBV_QPT_RC) {
    ibv_qp_init_attr attributes{};
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.qp_type = type;
    attributes.sq_sig_all = 1;
    done(rdma_create_qp(id.get(), nullptr, &attributes), "rdma_create_qp");
}

inline rdma_conn_param parameters(std::string_view private_data = {}) {
    rdma_conn_param made{};
    made.private_data = private_data.data();
    made.private_data_len = static_cast<std::uint8_t>(private_data.size());
    made.responder_resources = made.initiator_depth = 2;
    made.retry_count = made.rnr_retry_count = 7;
    return made;
}

inline std::string private_data(const void* data, std::size_t bytes) {
    // Zeros follow what the peer said.
    const std::string all(static_cast<const char*>(data), bytes);
    return all.substr(0, all.find('\0'));
}

}  // namespace verbatim::interop

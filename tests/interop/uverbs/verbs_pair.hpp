// Queue pairs of unmodified libibverbs, connected or not, and what tests do with them.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include <verbatim/uverbs/uverbs.hpp>

namespace verbatim::interop {

template <auto Destroy>
struct Destroyer {
    template <class T>
    void operator()(T* object) const {
        EXPECT_EQ(Destroy(object), 0);
    }
};
using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using Completions = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using SharedReceives = std::unique_ptr<ibv_srq, Destroyer<ibv_destroy_srq>>;
using Pair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;

template <class T>
T* good(T* object, const char* what) {
    if (object == nullptr) throw std::runtime_error(std::string(what) + " failed");
    return object;
}
inline void good(int error, const char* what) {
    if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

inline Context open_device() {
    if (uverbs::sysfs_root() == nullptr) throw std::runtime_error("no device");
    ibv_device** const list = good(ibv_get_device_list(nullptr), "ibv_get_device_list");
    Context context(good(ibv_open_device(list[0]), "ibv_open_device"));
    ibv_free_device_list(list);
    return context;
}

inline ibv_qp_attr state(ibv_qp_state to) {
    ibv_qp_attr attributes{};
    attributes.qp_state = to;
    attributes.port_num = 1;
    return attributes;
}

constexpr unsigned kAllAccess =
    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

inline void to_init(ibv_qp* pair, unsigned access = kAllAccess) {
    ibv_qp_attr to = state(IBV_QPS_INIT);
    to.qp_access_flags = access;
    good(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "to INIT");
}

inline void to_receive(ibv_qp* pair, std::uint32_t peer, std::uint8_t reads = 16) {
    ibv_qp_attr to = state(IBV_QPS_RTR);
    to.path_mtu = IBV_MTU_4096;
    to.dest_qp_num = peer;
    to.max_dest_rd_atomic = reads;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.hop_limit = 1;
    good(ibv_query_gid(pair->context, 1, 0, &to.ah_attr.grh.dgid), "ibv_query_gid");
    good(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "to RTR");
}

inline void to_send(ibv_qp* pair, std::uint8_t not_ready_retries = 7) {
    ibv_qp_attr to = state(IBV_QPS_RTS);
    to.timeout = 8;
    to.retry_cnt = 7;
    to.rnr_retry = not_ready_retries;
    to.max_rd_atomic = 16;
    good(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "to RTS");
}

inline void connect(ibv_qp* pair, std::uint32_t peer) {
    to_init(pair);
    to_receive(pair, peer);
    to_send(pair);
}

inline void to_error(ibv_qp* pair) {
    ibv_qp_attr to = state(IBV_QPS_ERR);
    good(ibv_modify_qp(pair, &to, IBV_QP_STATE), "to ERR");
}

inline ibv_qp_state state_of(ibv_qp* pair) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    good(ibv_query_qp(pair, &attributes, IBV_QP_STATE, &made), "ibv_query_qp");
    return attributes.qp_state;
}

// Polls until there is a completion; fails the test after ten seconds.
inline ibv_wc poll(ibv_cq* queue) {
    ibv_wc completion{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_poll_cq(queue, 1, &completion) == 0)
        if (std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error("no completion came");
    return completion;
}

// A send request of one element.
struct Request {
    ibv_sge element{};
    ibv_send_wr work{};

    Request(ibv_wr_opcode opcode, const void* data, std::uint32_t bytes, std::uint32_t key) {
        element = {reinterpret_cast<std::uint64_t>(data), bytes, key};
        work.opcode = opcode;
        work.send_flags = IBV_SEND_SIGNALED;
        work.num_sge = 1;
    }
    Request& to(const void* target, std::uint32_t key) {
        work.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(target);
        work.wr.rdma.rkey = key;
        return *this;
    }
    Request& atomic(const void* target, std::uint32_t key, std::uint64_t first,
                    std::uint64_t second = 0) {
        work.wr.atomic = {reinterpret_cast<std::uint64_t>(target), first, second, key};
        return *this;
    }
    Request& flags(unsigned more) {
        work.send_flags |= more;
        return *this;
    }
    void post(ibv_qp* pair, std::uint64_t id = 0) {
        work.wr_id = id;
        work.sg_list = &element;
        ibv_send_wr* bad = nullptr;
        good(ibv_post_send(pair, &work, &bad), "ibv_post_send");
    }
};

struct SideOptions {
    bool events = false;
    bool shared_receives = false;
    std::uint32_t completions = 64;
};

// One end: a queue pair with a completion queue and 1 MiB of registered memory.
class Side {
  public:
    static constexpr std::size_t kBytes = std::size_t{1} << 20;

    explicit Side(ibv_context* context, const SideOptions& options = {})
        : domain(good(ibv_alloc_pd(context), "ibv_alloc_pd")), memory(kBytes) {
        region.reset(good(ibv_reg_mr(domain.get(), memory.data(), kBytes,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
                          "ibv_reg_mr"));
        if (options.events)
            channel.reset(good(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
        completions.reset(good(
            ibv_create_cq(context, static_cast<int>(options.completions), this, channel.get(), 0),
            "ibv_create_cq"));
        if (options.shared_receives) {
            ibv_srq_init_attr wanted{nullptr, {32, 2, 0}};
            shared.reset(good(ibv_create_srq(domain.get(), &wanted), "ibv_create_srq"));
        }
        make_pair();
    }

    void make_pair() {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = completions.get();
        wanted.srq = shared.get();
        wanted.cap = {32, 32, 4, 4, 64};
        wanted.qp_type = IBV_QPT_RC;
        pair.reset(good(ibv_create_qp(domain.get(), &wanted), "ibv_create_qp"));
    }

    Request request(ibv_wr_opcode opcode, std::size_t at, std::uint32_t bytes) {
        return Request(opcode, memory.data() + at, bytes, region->lkey);
    }
    void receive(std::size_t at, std::uint32_t bytes, std::uint64_t id = 0) {
        ibv_sge element{reinterpret_cast<std::uint64_t>(memory.data() + at), bytes, region->lkey};
        ibv_recv_wr work{id, nullptr, &element, 1}, *bad = nullptr;
        if (shared != nullptr)
            good(ibv_post_srq_recv(shared.get(), &work, &bad), "ibv_post_srq_recv");
        else
            good(ibv_post_recv(pair.get(), &work, &bad), "ibv_post_recv");
    }
    ibv_wc poll() { return interop::poll(completions.get()); }
    void fill(std::size_t at, std::size_t bytes, int seed) {
        for (std::size_t i = 0; i < bytes; ++i)
            memory[at + i] = static_cast<std::byte>((i * 7 + i / 251 + std::size_t(seed)) & 0xff);
    }
    std::uint64_t& word(std::size_t at) {
        return *reinterpret_cast<std::uint64_t*>(memory.data() + at);
    }

    Domain domain;
    std::vector<std::byte> memory;
    Region region;
    Channel channel;
    Completions completions;
    SharedReceives shared;
    Pair pair;
};

// The whole way: new objects are made, and data move.
inline bool works(ibv_context* context) {
    Side one(context), other(context);
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    one.fill(0, 4096, 5);
    one.request(IBV_WR_RDMA_WRITE, 0, 4096)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    return one.poll().status == IBV_WC_SUCCESS &&
           std::memcmp(one.memory.data(), other.memory.data(), 4096) == 0;
}

}  // namespace verbatim::interop

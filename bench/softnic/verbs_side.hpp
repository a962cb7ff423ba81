// Queue pairs of unmodified libibverbs on the software NIC, which executes them (this program is
// linked with it). Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "libmlx5.hpp"

namespace verbatim::bench {

// Executed, unlike those of tests/support.
inline interop::Context open_executed_device() {
    setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
    if (uverbs::sysfs_root() == nullptr) throw std::runtime_error("no tree for libibverbs");
    ibv_device** const list = interop::made(ibv_get_device_list(nullptr), "ibv_get_device_list");
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return interop::Context(interop::made(context, "ibv_open_device"));
}

inline void must(int error, const char* what) {
    if (error != 0) throw std::runtime_error(std::string(what) + ": " + strerror(error));
}

inline interop::Pair make_pair(ibv_pd* domain, ibv_cq* completions, std::uint32_t depth) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions;
    wanted.cap = {depth, depth, 1, 1, 64};
    wanted.qp_type = IBV_QPT_RC;
    return interop::Pair(interop::made(ibv_create_qp(domain, &wanted), "ibv_create_qp"));
}

inline void connect(ibv_qp* pair, std::uint32_t peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    must(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "to INIT");
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_4096;
    to.dest_qp_num = peer;
    to.max_dest_rd_atomic = 16;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    must(ibv_query_gid(pair->context, 1, 0, &to.ah_attr.grh.dgid), "ibv_query_gid");
    must(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "to RTR");
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    to.max_rd_atomic = 16;
    must(ibv_modify_qp(pair, &to,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "to RTS");
}

// A page of registered memory and a completion queue, for as many queue pairs as one likes.
struct Memory {
    explicit Memory(int entries, ibv_comp_channel* channel = nullptr, ibv_context* opened = nullptr)
        : own(opened == nullptr ? open_executed_device() : nullptr),
          context(opened == nullptr ? own.get() : opened),
          domain(interop::made(ibv_alloc_pd(context), "ibv_alloc_pd")),
          bytes(4096),
          region(interop::made(ibv_reg_mr(domain.get(), bytes.data(), bytes.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                               "ibv_reg_mr")),
          completions(interop::made(ibv_create_cq(context, entries, nullptr, channel, 0),
                                    "ibv_create_cq")) {}

    // Writes or sends the first eight bytes.
    void post(ibv_qp* pair, ibv_wr_opcode opcode) {
        ibv_sge element{reinterpret_cast<std::uint64_t>(bytes.data()), 8, 0};
        ibv_send_wr request{}, *bad = nullptr;
        request.opcode = opcode;
        request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        request.sg_list = &element;
        request.num_sge = 1;
        request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(bytes.data() + 64);
        request.wr.rdma.rkey = region->rkey;
        must(ibv_post_send(pair, &request, &bad), "ibv_post_send");
    }
    void receive(ibv_qp* pair) {
        ibv_sge element{reinterpret_cast<std::uint64_t>(bytes.data() + 64), 8, region->lkey};
        ibv_recv_wr request{0, nullptr, &element, 1}, *bad = nullptr;
        must(ibv_post_recv(pair, &request, &bad), "ibv_post_recv");
    }
    // Polls until `count` requests are complete.
    void await(std::uint32_t count) {
        ibv_wc done[16];
        while (count != 0) {
            const int found = ibv_poll_cq(completions.get(), 16, done);
            for (int i = 0; i < found; ++i)
                if (done[i].status != IBV_WC_SUCCESS)
                    throw std::runtime_error(ibv_wc_status_str(done[i].status));
            count -= std::min(count, static_cast<std::uint32_t>(std::max(found, 0)));
        }
    }

    interop::Context own;
    ibv_context* context;
    interop::Domain domain;
    std::vector<std::byte> bytes;
    interop::Region region;
    interop::Queue completions;
};

}  // namespace verbatim::bench

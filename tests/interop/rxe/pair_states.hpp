// The states of a reliable queue pair, and owners of verbs' objects.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "side_channel.hpp"

namespace verbatim::interop {

template <auto Destroy>
struct VerbsDestroyer {
    template <class T>
    void operator()(T* object) const {
        Destroy(object);
    }
};

template <class T>
T* made(T* object, const char* name) {
    must(object != nullptr, std::string(name) + " failed");
    return object;
}

inline void change(ibv_qp& pair, ibv_qp_attr& to, int mask) {
    const int error = ibv_modify_qp(&pair, &to, mask);
    must(error == 0, "state " + std::to_string(to.qp_state) + ": " + std::strerror(error));
}

inline void to_init(ibv_qp& pair) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    change(pair, to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

inline constexpr std::uint8_t kReadsAtOnce = 4;

struct PeerPair {
    std::uint32_t number, sequence;
    ibv_gid gid;
};

// `gid`: index of the own one.
inline void to_receive(ibv_qp& pair, int gid, const PeerPair& peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer.number;
    to.rq_psn = peer.sequence;
    to.max_dest_rd_atomic = kReadsAtOnce;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.hop_limit = 64;
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid);
    to.ah_attr.grh.dgid = peer.gid;
    change(pair, to,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

// Retries for two seconds: the other end may have lost its core.
inline void to_send(ibv_qp& pair, std::uint32_t sequence) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.sq_psn = sequence;
    to.timeout = 16;
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = kReadsAtOnce;
    change(pair, to,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace verbatim::interop

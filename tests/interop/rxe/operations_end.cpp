// Objects of an end, and their states.
#include "operations_end.hpp"

#include <string>

namespace verbatim::interop {
namespace {

constexpr std::uint8_t kReadsAtOnce = 4;

template <class T>
T* made(T* object, const char* name) {
    must(object != nullptr, std::string(name) + " failed");
    return object;
}

void change(ibv_qp* pair, ibv_qp_attr& to, int mask) {
    const int error = ibv_modify_qp(pair, &to, mask);
    must(error == 0, "state " + std::to_string(to.qp_state) + ": " + std::strerror(error));
}

}  // namespace

OperationsEnd::OperationsEnd(int gid, std::uint32_t number)
    : gid_(gid), number_(number), memory_(std::make_unique<Memory>()) {
    fill(*memory_, number);
    ibv_device** const devices = made(ibv_get_device_list(nullptr), "ibv_get_device_list");
    context_.reset(made(ibv_open_device(made(devices[0], "a device")), "ibv_open_device"));
    ibv_free_device_list(devices);
    domain_.reset(made(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
    region_.reset(made(ibv_reg_mr(domain_.get(), memory_.get(), sizeof(Memory),
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC),
                       "ibv_reg_mr"));
    make_pair();
    to_init();
    post_receives();
}

void OperationsEnd::make_pair() {
    constexpr std::uint32_t kMostReceives = kReceives * kRounds,
                            kMost = kRoundsAtOnce * kOperations;
    const auto queue = [this](std::uint32_t entries) {
        return made(ibv_create_cq(context_.get(), static_cast<int>(entries), nullptr, nullptr, 0),
                    "ibv_create_cq");
    };
    requests_.reset(queue(kMost));
    receives_.reset(queue(kMostReceives));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = requests_.get();
    wanted.recv_cq = receives_.get();
    wanted.cap = {kMost, kMostReceives, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    pair_.reset(made(ibv_create_qp(domain_.get(), &wanted), "ibv_create_qp"));
}

// All of them: no message waits for one.
void OperationsEnd::post_receives() {
    for (std::uint32_t i = 0; i != kReceives * kRounds; ++i) {
        auto& messages = memory_->rounds[i / kReceives].messages;
        const bool message = i % kReceives < messages.size();
        ibv_sge element{0, kMostBytes, region_->lkey};
        if (message) element.addr = reinterpret_cast<std::uint64_t>(&messages[i % kReceives]);
        ibv_recv_wr work{i, nullptr, &element, message ? 1 : 0}, *bad = nullptr;
        must(ibv_post_recv(pair_.get(), &work, &bad) == 0, "ibv_post_recv failed");
    }
}

void OperationsEnd::connect(SideChannel& peer) {
    constexpr std::uint32_t kFirstSequence = 0xffff80;  // wraps soon
    Place own{pair_->qp_num,
              kFirstSequence + number_,
              region_->rkey,
              reinterpret_cast<std::uint64_t>(memory_.get()),
              {}};
    must(ibv_query_gid(context_.get(), 1, gid_, &own.gid) == 0, "ibv_query_gid failed");
    peer_ = peer.exchange(own);
    to_receive(peer_);
    to_send(own.sequence);
    peer.exchange('r');  // the peer receives, too
}

void OperationsEnd::to_init() {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    change(pair_.get(), to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void OperationsEnd::to_receive(const Place& peer) {
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
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_);
    to.ah_attr.grh.dgid = peer.gid;
    change(pair_.get(), to,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

// Retries for two seconds: the other end may have lost its core.
void OperationsEnd::to_send(std::uint32_t sequence) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.sq_psn = sequence;
    to.timeout = 16;
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = kReadsAtOnce;
    change(pair_.get(), to,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace verbatim::interop

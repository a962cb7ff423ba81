// Objects of an end.
#include "operations_end.hpp"

#include <string>

#include "pair_states.hpp"

namespace verbatim::interop {
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
    to_init(*pair_);
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
    to_receive(*pair_, gid_, {peer_.number, peer_.sequence, peer_.gid});
    to_send(*pair_, own.sequence);
    peer.exchange('r');  // the peer receives, too
}

}  // namespace verbatim::interop

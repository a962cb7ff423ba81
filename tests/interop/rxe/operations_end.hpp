// A queue pair that executes rounds of all operations at the peer, whose memory is laid out alike,
// while the peer does the same. Each completion is checked, and the data that it stands for.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "pair_states.hpp"
#include "round_memory.hpp"
#include "side_channel.hpp"

namespace verbatim::interop {

class OperationsEnd {
  public:
    // `gid`: its index at the first device; `number` of this end: 0 or 1. Throws.
    OperationsEnd(int gid, std::uint32_t number);

    // Until both directions are done. Throws where something is wrong, or nothing is done in time.
    void connect(SideChannel& peer);
    void run();
    // Both ends have run.
    void check_words() const;

  private:
    // What an end tells the other one.
    struct Place {
        std::uint32_t number, sequence, key;
        std::uint64_t address;
        ibv_gid gid;
    };

    void make_pair();
    void post_receives();
    void post(Operation operation, std::uint32_t round);
    ibv_sge local_of(Operation operation, Round& round, std::uint32_t number) const;
    std::uint64_t remote(const void* own) const;
    bool take_request();
    bool take_receive();
    void check_result(Operation operation, std::uint32_t round) const;

    const int gid_;
    const std::uint32_t number_;
    std::unique_ptr<Memory> memory_;
    std::unique_ptr<ibv_context, VerbsDestroyer<ibv_close_device>> context_;
    std::unique_ptr<ibv_pd, VerbsDestroyer<ibv_dealloc_pd>> domain_;
    std::unique_ptr<ibv_mr, VerbsDestroyer<ibv_dereg_mr>> region_;
    std::unique_ptr<ibv_cq, VerbsDestroyer<ibv_destroy_cq>> requests_, receives_;
    std::unique_ptr<ibv_qp, VerbsDestroyer<ibv_destroy_qp>> pair_;
    Place peer_{};
    std::uint32_t posted_ = 0, completed_ = 0, received_ = 0;
};

}  // namespace verbatim::interop

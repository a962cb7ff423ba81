// A datagram queue pair that asks its peer, or answers it, in rounds of messages of all lengths.
// Data, sender and network header of each message are checked. Messages may be lost: a question is
// asked again, and all questions are answered.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "operations_end.hpp"
#include "side_channel.hpp"

namespace verbatim::interop {

class DatagramEnd {
  public:
    // `gid`: its index at the first device. Throws.
    explicit DatagramEnd(int gid);

    // Each tells the other one of itself.
    void meet(SideChannel& peer);
    // Until all rounds are done; until the peer says so. Throw where something is wrong, or nothing
    // is done in time.
    void ask();
    void answer(SideChannel& peer);

  private:
    static constexpr std::uint32_t kQueueKey = 0x11111111, kRounds = 200, kMostBytes = 1024;
    static constexpr std::uint32_t kReceives = 64, kSlotBytes = 40 + kMostBytes;
    struct Place {
        std::uint32_t number;
        ibv_gid gid;
    };
    struct Message {
        std::uint32_t round;
        std::uint64_t slot;
    };

    void make_pair();
    void be_ready();
    void receive_at(std::uint64_t slot);
    void send(ibv_ah* to, std::uint32_t number, std::uint32_t round, bool asks);
    // False: nothing is there.
    bool take(Message& message, ibv_wc& completion, bool answers);
    void check(const ibv_wc& completion, const std::uint8_t* slot) const;

    const int gid_;
    Place own_{}, peer_{};
    std::vector<std::uint8_t> memory_;
    std::unique_ptr<ibv_context, VerbsDestroyer<ibv_close_device>> context_;
    std::unique_ptr<ibv_pd, VerbsDestroyer<ibv_dealloc_pd>> domain_;
    std::unique_ptr<ibv_mr, VerbsDestroyer<ibv_dereg_mr>> region_;
    std::unique_ptr<ibv_cq, VerbsDestroyer<ibv_destroy_cq>> requests_, receives_;
    std::unique_ptr<ibv_qp, VerbsDestroyer<ibv_destroy_qp>> pair_;
};

}  // namespace verbatim::interop

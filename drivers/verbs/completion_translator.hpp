// The device's side of a completion queue whose entries come from ibv_poll_cq: takes finished work
// off the verbs queue and writes it as entries that mlx5::CompletionQueue reads, so that everything
// above is the same as on mlx5 queues. Threads: the one that polls.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include <verbatim/driver/queue_view.hpp>

#include "../softqueue/completion_ring.hpp"

namespace verbatim::verbs {

class CompletionTranslator {
  public:
    // `view`: the entries, all in the device's hands. `queue` has room for as many and stays.
    CompletionTranslator(ibv_cq* queue, const mlx5::CompletionQueueView& view) noexcept
        : queue_(queue), ring_(view) {}

    // Takes what is there, as far as there is room.
    void progress() noexcept;
    // After the arming word was written.
    void arm() noexcept;
    // Of a request that the device did not take, and will not even flush.
    void push_failure(std::uint32_t queue_pair, std::uint64_t tag) noexcept;

  private:
    static constexpr int kBatch = 16;

    int room() const noexcept;
    void push(const ibv_wc& completion) noexcept;

    ibv_cq* queue_;
    softnic::CompletionRing ring_;
};

// What a completion entry says of a status of verbs.
mlx5::Syndrome syndrome_of(ibv_wc_status status) noexcept;

}  // namespace verbatim::verbs

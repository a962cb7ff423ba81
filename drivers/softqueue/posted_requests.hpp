// How far a send queue's requests may be executed: by the doorbell record, or with strict doorbells
// up to the last good doorbell. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

#include <verbatim/driver/queue_view.hpp>

#include "completion_ring.hpp"

namespace verbatim::softnic {

class PostedRequests {
  public:
    PostedRequests(const volatile std::uint32_t* record, bool strict) noexcept
        : record_(record), strict_(strict) {}

    // Modulo 2^16 blocks, as all counters here.
    std::uint16_t limit() const noexcept {
        return strict_ ? rung_.load(std::memory_order_acquire) : recorded();
    }
    // What the driver has announced, whether it rang well or not.
    std::uint16_t recorded() const noexcept {
        return static_cast<std::uint16_t>(read_record(record_));
    }
    // Strict doorbells: everything before `counter` may be executed.
    void ring(std::uint16_t counter) noexcept { rung_.store(counter, std::memory_order_release); }
    // Strict doorbells: the request after the last good doorbell fails.
    void reject() noexcept { rejected_.store(true, std::memory_order_release); }
    bool rejected() const noexcept { return rejected_.load(std::memory_order_acquire); }
    void forget_rejection() noexcept { rejected_.store(false, std::memory_order_relaxed); }
    void reset() noexcept {
        rung_.store(0, std::memory_order_relaxed);
        forget_rejection();
    }

  private:
    const volatile std::uint32_t* record_;
    const bool strict_;
    std::atomic<std::uint16_t> rung_{0};
    std::atomic<bool> rejected_{false};
};

}  // namespace verbatim::softnic

// The limits of a queue pair: how often and how long it tries, whose datagrams it takes, and
// whether it begins requests. Threads: any; the control path sets them at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <verbatim/driver/device.hpp>

namespace verbatim::softnic {

struct QueuePairLimits {
    // How often a request is tried again that finds no receive at the peer; all bits set: for ever.
    static constexpr std::uint8_t kForEver = 7;
    std::atomic<std::uint8_t> not_ready_retries{kForEver};
    // After which time a request is sent again that nobody acknowledges (0: never), and how often.
    // Only a fault policy loses requests.
    static constexpr std::chrono::nanoseconds kRetryAfter = std::chrono::milliseconds(1);
    std::atomic<std::chrono::nanoseconds> retry_after{kRetryAfter};
    std::atomic<std::uint8_t> retries{7};
    void set_retries(std::chrono::nanoseconds after, std::uint8_t times) noexcept {
        retry_after.store(after);
        retries.store(times);
    }
    // Of datagram queue pairs: what a datagram must name.
    std::atomic<std::uint32_t> queue_key{0};
    // One-sided requests of the peer that the queue pair takes, whatever its keys say.
    std::atomic<Access> allowed{Access::remote_write | Access::remote_read | Access::remote_atomic};
    // Requests wait until it is taken back; `report_drained`: once what was begun is complete.
    std::atomic<bool> paused{false}, report_drained{false};
};

}  // namespace verbatim::softnic

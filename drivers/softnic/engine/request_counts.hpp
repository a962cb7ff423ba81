// Counts of a send queue's requests.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim::softnic {

// Since the queue pair was made. One writer at a time; read by any thread.
struct RequestCounts {
    std::atomic<std::uint64_t> requests{0};
    // Payload: for the peer, and what reads and atomic operations asked of it.
    std::atomic<std::uint64_t> bytes_sent{0}, bytes_fetched{0};

    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
};

}  // namespace verbatim::softnic

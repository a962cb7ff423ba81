// The budget bounds what all connections of a context lend for graphs that have not come in. Its
// last part is for the graph that has waited for room the longest, so that half-arrived graphs
// cannot block each other. Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include <verbatim/core/config.hpp>

#include "wire.hpp"

namespace verbatim::objects {

class Budget {
  public:
    explicit Budget(const Config& config)
        : most_(round_to(
              std::max<std::uint64_t>(config.objects.window_budget, config.objects.max_graph_bytes),
              wire::kSlotBytes)),
          reserve_(round_to(config.objects.max_graph_bytes, wire::kSlotBytes)) {}

    // The number of a graph that needs room, for is_oldest(), until end().
    std::uint64_t begin() {
        const std::lock_guard lock(mutex_);
        open_.insert(++last_);
        return last_;
    }
    void end(std::uint64_t number) noexcept {
        const std::lock_guard lock(mutex_);
        open_.erase(number);
    }
    bool is_oldest(std::uint64_t number) const noexcept {
        const std::lock_guard lock(mutex_);
        return !open_.empty() && *open_.begin() == number;
    }

    // `for_oldest`: all of it may be used. Bytes are given back by give().
    bool take(std::uint64_t bytes, bool for_oldest) noexcept {
        const std::uint64_t most = for_oldest ? most_ : most_ - reserve_;
        std::uint64_t used = used_.load(std::memory_order_relaxed);
        do {
            if (bytes > most || used > most - bytes) return note_lack();
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        return true;
    }
    void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
    std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    // Grows whenever a graph finds no room: connections give back what they do not use.
    std::uint64_t lacks() const noexcept { return lacks_.load(std::memory_order_relaxed); }

  private:
    bool note_lack() noexcept {
        lacks_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }

    const std::uint64_t most_, reserve_;
    std::atomic<std::uint64_t> used_{0}, lacks_{0};
    mutable std::mutex mutex_;
    std::set<std::uint64_t> open_;
    std::uint64_t last_ = 0;
};

}  // namespace verbatim::objects

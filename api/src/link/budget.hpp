// The budget bounds what all connections of a context lend for graphs that have not come in. Its
// last part is for the graph that has waited for room the longest, so that half-arrived graphs
// cannot block each other. Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <verbatim/core/config.hpp>
#include <verbatim/core/lane.hpp>

#include "messages/wire.hpp"

namespace verbatim::objects {

class ObjectLink;

// A lender is a connection that has lent windows. Owner: its lane's thread, but for what says
// otherwise.
struct Lender {
    ObjectLink* link = nullptr;  // null: it has none any more
    std::weak_ptr<Lane::Impl> lane;
    std::atomic<bool> is_asked{false};  // any thread
};
// In the lane's thread: windows that it does not use shall come back.
void ask_back(ObjectLink& link) noexcept;

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

    void add(const std::shared_ptr<Lender>& lender) {
        const std::lock_guard lock(mutex_);
        lenders_.push_back(lender);
    }
    void remove(const std::shared_ptr<Lender>& lender) noexcept {
        const std::lock_guard lock(mutex_);
        std::erase(lenders_, lender);
    }
    // A graph waits for memory: all lanes whose connections have lent some hear of it, but not more
    // often than each millisecond. Throws std::bad_alloc.
    void ask_lenders() {
        (void)note_lack();
        const std::lock_guard lock(mutex_);
        if (Clock::now() < asks_again_) return;
        asks_again_ = Clock::now() + std::chrono::milliseconds(1);
        for (const auto& lender : lenders_) {
            const auto lane = lender->lane.lock();
            if (lane == nullptr || lender->is_asked.exchange(true)) continue;
            Lane(lane).submit([lender]() noexcept {
                lender->is_asked = false;
                if (lender->link != nullptr) ask_back(*lender->link);
            });
        }
    }

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
    std::vector<std::shared_ptr<Lender>> lenders_;
    Clock::time_point asks_again_{};
};

}  // namespace verbatim::objects

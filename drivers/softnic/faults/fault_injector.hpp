// Decides which tries of one queue pair's requests go wrong, and counts them. Once per try, not
// each time the engine looks at a request that waits. Threads: the one inside the send gate, but
// for counted().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <verbatim/softnic/fault_policy.hpp>

namespace verbatim::softnic {

class FaultInjector {
  public:
    // `ordinal`: which queue pair of its device it is, so that those of one seed differ.
    FaultInjector(const FaultPolicy& policy, std::uint64_t ordinal);

    // The rule that strikes the current try of the request at the head, of these `operations`;
    // null: none does.
    const FaultRule* strikes(std::uint8_t operations) noexcept;
    // Whether so much time has gone by since this was asked first about the current try.
    bool waited(std::chrono::nanoseconds time) noexcept;
    // The request is tried again. Returns how often it was until now.
    std::uint32_t try_again() noexcept;
    // The request has arrived once already.
    bool arrived() const noexcept { return arrived_; }
    void set_arrived() noexcept { arrived_ = true; }
    // Another request is at the head.
    void next_request() noexcept;

    // How often an action was taken. Any thread.
    std::uint64_t counted(FaultAction action) const noexcept {
        return counts_[static_cast<std::size_t>(action)].load(std::memory_order_relaxed);
    }

  private:
    struct Rule {
        FaultRule rule;
        std::uint64_t seen = 0;  // operations it has counted
        std::uint64_t below;     // by rate: draws that strike
        std::mt19937_64 random;
    };
    static bool strikes(Rule& rule) noexcept;

    std::vector<Rule> rules_;
    std::array<std::atomic<std::uint64_t>, kFaultActions> counts_{};
    // Of the current try.
    bool decided_ = false, waits_ = false, arrived_ = false;
    const FaultRule* decision_ = nullptr;
    std::chrono::steady_clock::time_point since_;
    std::uint32_t tries_ = 0;  // of the current request, before this one
};

}  // namespace verbatim::softnic

// Counting and drawing.
#include "fault_injector.hpp"

#include <cmath>
#include <limits>

namespace verbatim::softnic {
namespace {

// Draws are even over all numbers of 64 bits.
std::uint64_t share_of(double rate) noexcept {
    constexpr double kAll = 18446744073709551616.0;  // 2^64
    const double share = std::ldexp(rate, 64);
    return share >= kAll ? std::numeric_limits<std::uint64_t>::max()
                         : static_cast<std::uint64_t>(share);
}

}  // namespace

FaultInjector::FaultInjector(const FaultPolicy& policy, std::uint64_t ordinal) {
    const auto half = [](std::uint64_t number, int which) {
        return static_cast<std::uint32_t>(number >> (32 * which));
    };
    for (const FaultRule& rule : policy.rules) {
        std::seed_seq seed{half(rule.seed, 0), half(rule.seed, 1), half(ordinal, 0),
                           half(ordinal, 1)};
        rules_.push_back({rule, 0, share_of(rule.rate), std::mt19937_64(seed)});
    }
}

bool FaultInjector::strikes(Rule& rule) noexcept {
    ++rule.seen;
    if (rule.rule.nth == 0) return rule.random() <= rule.below;
    return rule.seen >= rule.rule.nth && rule.seen - rule.rule.nth < rule.rule.times;
}

const FaultRule* FaultInjector::strikes(std::uint8_t operations) noexcept {
    if (decided_) return decision_;
    decided_ = true;
    for (Rule& rule : rules_)
        if ((rule.rule.operations & operations) != 0 && strikes(rule) && decision_ == nullptr)
            decision_ = &rule.rule;
    if (decision_ != nullptr) {
        auto& count = counts_[static_cast<std::size_t>(decision_->action)];
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    return decision_;
}

bool FaultInjector::waited(std::chrono::nanoseconds time) noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (!waits_) since_ = now;
    waits_ = true;
    return now - since_ >= time;
}

std::uint32_t FaultInjector::try_again() noexcept {
    decided_ = waits_ = false;
    decision_ = nullptr;
    return ++tries_;
}

void FaultInjector::next_request() noexcept {
    try_again();
    tries_ = 0;
    arrived_ = false;
}

}  // namespace verbatim::softnic

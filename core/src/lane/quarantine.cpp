// Barriers of the device, and what waits for them.
#include "quarantine.hpp"

#include <utility>

#include <verbatim/driver/log.hpp>

namespace verbatim {
namespace {

// A thread that was preempted in the middle of a copy has its core back long before.
constexpr std::chrono::seconds kLong{2};

}  // namespace

void Quarantine::put(std::list<Lot>&& lot) noexcept {
    lot.front().since = Clock::now();
    bytes_.fetch_add(lot.front().bytes, std::memory_order_relaxed);
    {
        const std::lock_guard lock(mutex_);
        lots_.splice(lots_.end(), lot);
    }
    count_.fetch_add(1, std::memory_order_relaxed);
}

// Under mutex_. A barrier that cannot be made for want of memory is made later.
bool Quarantine::has_passed(Lot& lot) noexcept {
    try {
        if (lot.barrier == nullptr) lot.barrier = device_.begin_barrier();
    } catch (...) {
        return false;
    }
    if (lot.barrier->has_passed()) return true;
    if (!lot.is_told && Clock::now() - lot.since > kLong) {
        lot.is_told = true;
        log::warn(
            "{} bytes that were lent to a lost peer stay in quarantine: a process is stopped in "
            "the middle of a copy; let it go on, or end it",
            lot.bytes);
    }
    return false;
}

void Quarantine::sweep_all() noexcept {
    std::list<Lot> free;  // ends behind the lock: owners may lend and end
    {
        const std::lock_guard lock(mutex_);
        for (auto next = lots_.begin(); next != lots_.end();) {
            const auto at = next++;
            if (!has_passed(*at)) continue;
            bytes_.fetch_sub(at->bytes, std::memory_order_relaxed);
            free.splice(free.end(), lots_, at);
        }
    }
    count_.fetch_sub(free.size(), std::memory_order_relaxed);
}

}  // namespace verbatim

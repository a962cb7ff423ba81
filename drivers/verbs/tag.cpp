// The generations of all queues of this process, by slot: one word each, so that asking takes a
// load.
#include "tag.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim::verbs {
namespace {

constexpr std::uint32_t kSlots = 1u << 15;

constinit std::array<std::atomic<std::uint16_t>, kSlots> g_generations{};

// Slots that nobody holds; used again as late as possible is not needed, their generation moved on.
struct FreeSlots {
    std::mutex mutex;
    std::uint32_t never_used = 0;
    std::vector<std::uint32_t> returned;
};
FreeSlots& free_slots() {
    static auto* const slots = new FreeSlots;  // outlives static queues
    return *slots;
}

std::uint32_t take_slot() {
    FreeSlots& slots = free_slots();
    const std::lock_guard lock(slots.mutex);
    if (!slots.returned.empty()) {
        const std::uint32_t slot = slots.returned.back();
        slots.returned.pop_back();
        return slot;
    }
    if (slots.never_used == kSlots)
        throw Error(Errc::out_of_memory, "verbs queue", "this process has 32768 of them",
                    "destroy some first");
    slots.returned.reserve(slots.never_used + 1);  // so that a destructor can give it back
    return slots.never_used++;
}

}  // namespace

Life::Life() : slot_(take_slot()) { read(); }

Life::~Life() {
    renew();
    FreeSlots& slots = free_slots();
    const std::lock_guard lock(slots.mutex);
    slots.returned.push_back(slot_);
}

void Life::renew() noexcept {
    g_generations[slot_].fetch_add(1, std::memory_order_acq_rel);
    read();
}

void Life::read() noexcept {
    bits_ = std::uint64_t{slot_} << 48 |
            std::uint64_t{g_generations[slot_].load(std::memory_order_relaxed)} << 32;
}

bool Life::current(std::uint64_t tag) noexcept {
    const auto slot = static_cast<std::uint32_t>(tag >> 48 & (kSlots - 1));
    return g_generations[slot].load(std::memory_order_acquire) ==
           static_cast<std::uint16_t>(tag >> 32);
}

}  // namespace verbatim::verbs

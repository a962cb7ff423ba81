// Open addressing. A name is stored after its object and erased before it.
#include "key_table.hpp"

#include <verbatim/driver/error.hpp>

namespace verbatim::verbs {

void KeyTable::add_object(std::uint32_t key, void* object, Kind kind) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t name = name_of(key, kind);
    for (std::uint32_t i = 0; i < kPlaces; ++i) {
        Place& place = places_[(first_place(name) + i) % kPlaces];
        const std::uint32_t now = place.name.load(std::memory_order_relaxed);
        if (now != kFree && now != kWasUsed) continue;
        place.object.store(object, std::memory_order_relaxed);
        place.name.store(name, std::memory_order_release);
        return;
    }
    throw Error(Errc::out_of_memory, "verbs memory keys",
                "there are 4096 memory windows and regions for windows already",
                "release some, or register regions without Access::window_bind");
}

void KeyTable::remove(const void* object) noexcept {
    const std::lock_guard lock(mutex_);
    for (Place& place : places_) {
        if (place.object.load(std::memory_order_relaxed) != object) continue;
        place.name.store(kWasUsed, std::memory_order_release);
        place.object.store(nullptr, std::memory_order_release);
    }
}

void* KeyTable::find(std::uint32_t key, Kind kind) const noexcept {
    const std::uint32_t name = name_of(key, kind);
    for (std::uint32_t i = 0; i < kPlaces; ++i) {
        const Place& place = places_[(first_place(name) + i) % kPlaces];
        const std::uint32_t now = place.name.load(std::memory_order_acquire);
        if (now == name) return place.object.load(std::memory_order_relaxed);
        if (now == kFree) return nullptr;
    }
    return nullptr;
}

}  // namespace verbatim::verbs

// Keys of regions, and the lock around keys that come and go.
#include "key_table.hpp"

namespace verbatim::softnic {

KeyTable::KeyTable(const RevocationOptions& options) : accesses_(options), windows_(entries_) {}

std::uint32_t KeyTable::add(const Registration& registration) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = entries_.take();
    KeyRecord& made = entries_.record(index);
    const std::uint32_t key = index << 8 | ++made.variant;
    made.windows.store(0);
    made.kind.store(KeyRecord::Kind::region, std::memory_order_release);
    entries_.publish(index, key, registration);
    return key;
}

bool KeyTable::change(std::uint32_t key, const Registration& registration) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = key >> 8;
    if ((entries_.record(index).windows.load() & ~KeyRecord::kRetired) != 0) return false;
    entries_.publish(index, key, registration);
    return true;
}

void KeyTable::remove(std::uint32_t key) noexcept {
    constexpr std::uint32_t kRetired = KeyRecord::kRetired;
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = key >> 8;
    entries_.publish(index, 0, {});
    if ((entries_.record(index).windows.fetch_or(kRetired) & ~kRetired) != 0)
        windows_.close_all_of(index);
    entries_.give_back(index);
}

bool KeyTable::retire(std::uint32_t key) noexcept {
    std::uint32_t none = 0;
    return entries_.record(key >> 8).windows.compare_exchange_strong(none, KeyRecord::kRetired) ||
           none == KeyRecord::kRetired;
}

std::uint32_t KeyTable::add_window(WindowType type, std::uint32_t domain) {
    const std::lock_guard lock(mutex_);
    return windows_.add(type, domain);
}

void KeyTable::remove_window(std::uint32_t key) noexcept {
    const std::lock_guard lock(mutex_);
    windows_.remove(key);
}

}  // namespace verbatim::softnic

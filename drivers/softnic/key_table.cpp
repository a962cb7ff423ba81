// Publication and look-up of keys. Windows: key_windows.cpp.
#include "key_table.hpp"

#include <new>

#include <verbatim/driver/error.hpp>

#include "shared_store.hpp"

namespace verbatim::softnic {

bool KeyTableView::find_index(std::uint32_t index, Grant& grant) const noexcept {
    if (index < kFirstKeyIndex || index >= kKeyEntries) return false;
    const KeyEntry& entry = entries()[index];
    // An entry that changes under us is being released or reused: both mean that its key is not
    // valid now.
    const std::uint64_t version = entry.version.load(std::memory_order_acquire);
    const std::uint32_t key = entry.key.load(std::memory_order_acquire);
    if ((version & 1) != 0 || key >> 8 != index) return false;
    grant.entry = &entry;
    grant.version = version;
    grant.key = key;
    grant.access = static_cast<Access>(entry.access.load(std::memory_order_acquire));
    grant.address = entry.address.load(std::memory_order_acquire);
    grant.bytes = entry.bytes.load(std::memory_order_acquire);
    grant.file = entry.file.load(std::memory_order_acquire);
    grant.file_offset = entry.file_offset.load(std::memory_order_acquire);
    grant.origin = entry.origin.load(std::memory_order_acquire);
    grant.serves = entry.serves.load(std::memory_order_acquire);
    grant.domain = entry.domain.load(std::memory_order_acquire);
    return entry.version.load(std::memory_order_relaxed) == version;
}

KeyTable::KeyTable() : view_(SharedMemory::create("verbatim-keys", kKeyTableBytes, false)) {
    for (std::uint32_t index = 0; index < kKeyEntries; ++index)
        ::new (&view_.entries()[index]) KeyEntry;
    for (std::uint32_t index = kFirstKeyIndex; index < kKeyEntries; ++index) free_.push_back(index);
}

// Under mutex_.
std::uint32_t KeyTable::take_index() {
    if (free_.empty())
        throw Error(
            Errc::out_of_memory, "software NIC",
            "all " + std::to_string(kKeyEntries - kFirstKeyIndex) + " memory keys are in use",
            "register fewer and larger regions");
    const std::uint32_t index = free_.front();
    free_.pop_front();
    return index;
}

// Under mutex_.
void KeyTable::give_index(std::uint32_t index) noexcept {
    records_[index].kind.store(Kind::free, std::memory_order_release);
    free_.push_back(index);
}

std::uint32_t KeyTable::add(const Registration& registration) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = take_index();
    Record& record = records_[index];
    const std::uint32_t key = index << 8 | ++record.variant;
    record.windows.store(0);
    record.kind.store(Kind::region, std::memory_order_release);
    publish(index, key, registration);
    return key;
}

void KeyTable::remove(std::uint32_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = key >> 8;
    publish(index, 0, {});
    if ((records_[index].windows.fetch_or(kRetired) & ~kRetired) != 0) close_windows_of(index);
    give_index(index);
}

// Of a region, which nobody else changes.
void KeyTable::publish(std::uint32_t index, std::uint32_t key,
                       const Registration& registration) noexcept {
    KeyEntry& entry = view_.entries()[index];
    const std::uint64_t version = entry.version.load(std::memory_order_relaxed);
    store_release(entry.version, version + 1);
    store(entry, key, registration);
    store_release(entry.version, version + 2);
}

// Every store releases the one before: a reader that sees any new word also sees the odd version.
void KeyTable::store(KeyEntry& entry, std::uint32_t key, const Registration& r) noexcept {
    store_release(entry.key, key);
    store_release(entry.access, static_cast<std::uint32_t>(r.access));
    store_release(entry.address, r.address);
    store_release(entry.bytes, r.bytes);
    store_release(entry.file, r.file);
    store_release(entry.file_offset, r.file_offset);
    store_release(entry.origin, r.origin);
    store_release(entry.serves, r.serves);
    store_release(entry.domain, r.domain);
}

}  // namespace verbatim::softnic

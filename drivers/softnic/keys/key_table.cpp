// Publication and look-up of keys. Windows: key_windows.cpp.
#include "key_table.hpp"

#include <new>

#include <verbatim/driver/error.hpp>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

bool KeyTableView::find_index(std::uint32_t index, Grant& grant) const noexcept {
    const KeyEntry* const found = index < kFirstKeyIndex ? nullptr : chunks_->entry(index);
    if (found == nullptr) return false;
    const KeyEntry& entry = *found;
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

KeyTable::KeyTable(const RevocationOptions& options)
    : accesses_(options), view_(SharedMemory::create("verbatim-keys", kKeyChunkBytes, false)) {
    add_chunk(0);
    ::new (&entry(0)) KeyTableHeader;
}

// Its memory is there, and no key is free. Constructor, or under mutex_.
void KeyTable::add_chunk(std::uint32_t chunk) {
    const std::uint32_t first = chunk * kChunkKeys;
    std::deque<std::uint32_t> fresh;
    for (std::uint32_t i = 0; i < kChunkKeys; ++i) {
        ::new (&entry(first + i)) KeyEntry;
        if (first + i >= kFirstKeyIndex) fresh.push_back(first + i);
    }
    records_[chunk] = std::make_unique<Record[]>(kChunkKeys);
    free_.swap(fresh);
}

// Under mutex_. Peers see the count; those that meet a key of the new chunk ask for its file.
void KeyTable::grow() {
    const std::uint32_t chunk = view_.chunks();
    if (chunk == kMostChunks)
        throw Error(Errc::out_of_memory, "software NIC",
                    "all " + std::to_string(kMostKeys - kFirstKeyIndex) + " memory keys are in use",
                    "register fewer and larger regions");
    if (!view_.has(chunk))
        view_.set(chunk, SharedMemory::create("verbatim-keys", kKeyChunkBytes, false));
    add_chunk(chunk);
    store_release(view_.header().chunks, chunk + 1);
}

// Under mutex_.
std::uint32_t KeyTable::take_index() {
    if (free_.empty()) grow();
    const std::uint32_t index = free_.front();
    free_.pop_front();
    return index;
}

// Under mutex_.
void KeyTable::give_index(std::uint32_t index) noexcept {
    record(index).kind.store(Kind::free, std::memory_order_release);
    free_.push_back(index);
}

std::uint32_t KeyTable::add(const Registration& registration) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = take_index();
    Record& made = record(index);
    const std::uint32_t key = index << 8 | ++made.variant;
    made.windows.store(0);
    made.kind.store(Kind::region, std::memory_order_release);
    publish(index, key, registration);
    return key;
}

bool KeyTable::change(std::uint32_t key, const Registration& registration) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = key >> 8;
    if ((record(index).windows.load() & ~kRetired) != 0) return false;
    publish(index, key, registration);
    return true;
}

void KeyTable::remove(std::uint32_t key) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint32_t index = key >> 8;
    publish(index, 0, {});
    if ((record(index).windows.fetch_or(kRetired) & ~kRetired) != 0) close_windows_of(index);
    give_index(index);
}

// Of a region, which nobody else changes.
void KeyTable::publish(std::uint32_t index, std::uint32_t key,
                       const Registration& registration) noexcept {
    KeyEntry& entry = this->entry(index);
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

// Growth of the table, and stores into entries.
#include "key_entries.hpp"

#include <new>
#include <string>

#include <verbatim/driver/error.hpp>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

KeyEntries::KeyEntries() : view_(SharedMemory::create("verbatim-keys", kKeyChunkBytes, false)) {
    add_chunk(0);
    ::new (&entry(0)) KeyTableHeader;
}

// Its memory is there, and no key is free.
void KeyEntries::add_chunk(std::uint32_t chunk) {
    const std::uint32_t first = chunk * kChunkKeys;
    std::deque<std::uint32_t> fresh;
    for (std::uint32_t i = 0; i < kChunkKeys; ++i) {
        ::new (&entry(first + i)) KeyEntry;
        if (first + i >= kFirstKeyIndex) fresh.push_back(first + i);
    }
    records_[chunk] = std::make_unique<KeyRecord[]>(kChunkKeys);
    free_.swap(fresh);
}

// Peers see the count; those that meet a key of the new chunk ask for its file.
void KeyEntries::grow() {
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

std::uint32_t KeyEntries::take() {
    if (free_.empty()) grow();
    const std::uint32_t index = free_.front();
    free_.pop_front();
    return index;
}

void KeyEntries::give_back(std::uint32_t index) noexcept {
    record(index).kind.store(KeyRecord::Kind::free, std::memory_order_release);
    free_.push_back(index);
}

void KeyEntries::publish(std::uint32_t index, std::uint32_t key,
                         const Registration& registration) noexcept {
    KeyEntry& entry = this->entry(index);
    const std::uint64_t version = entry.version.load(std::memory_order_relaxed);
    store_release(entry.version, version + 1);
    store(entry, key, registration);
    store_release(entry.version, version + 2);
}

// Every store releases the one before: a reader that sees any new word also sees the odd version.
void KeyEntries::store(KeyEntry& entry, std::uint32_t key, const Registration& r) noexcept {
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

// The entries of a key table, and the view by which peers and owner look keys up. The table lies in
// memory files that the registering process writes and its peers map read-only: the executor of a
// one-sided operation checks the target's key against the target's own table, so a released key is
// refused at once without asking anybody.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <verbatim/driver/device.hpp>

#include "../host/file_table.hpp"
#include "../host/shared_memory.hpp"
#include "key_chunks.hpp"

namespace verbatim::softnic {

// Index 0 would make 0 a key, its place holds the KeyTableHeader; index 1 holds 0x100, which ends
// receive lists.
inline constexpr std::uint32_t kFirstKeyIndex = 2;

// KeyEntry::serves: [31] a window's key, which is no local key; [23:0] the queue pair that it
// serves.
inline constexpr std::uint32_t kOfWindow = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kServedMask = 0xffffff;
inline constexpr std::uint32_t kServesAll = 0xffffff;

// One key. Owner of every word: the registering process, there the thread that made `version` odd.
// Readers follow `version`: odd while the entry changes (or for ever, if its process was killed
// meanwhile), another value after each change.
struct alignas(64) KeyEntry {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint32_t> key{0};     // index << 8 | variant; 0: free
    std::atomic<std::uint32_t> access{0};  // Access bits
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> file{0};  // number in the file table, 0: private memory
    std::atomic<std::uint64_t> file_offset{0};
    std::atomic<std::uint64_t> origin{0};  // where `address` counts from in the owner's memory
    std::atomic<std::uint32_t> serves{kServesAll};
    std::atomic<std::uint32_t> domain{0};  // whose queue pairs may use the key
};
static_assert(sizeof(KeyEntry) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

inline KeyEntry* KeyChunks::at(KeyEntry* first, std::uint32_t index) noexcept {
    return first + index;
}
inline constexpr std::size_t kKeyChunkBytes = sizeof(KeyEntry) * kChunkKeys;

// In place of the first entry. Owner: the registering process, under the table's lock.
struct alignas(64) KeyTableHeader {
    std::atomic<std::uint32_t> chunks{1};  // only upwards; whatever is counted is complete
};
static_assert(sizeof(KeyTableHeader) == sizeof(KeyEntry));

// The range of a key, copied out of its entry: what each use of a known key takes.
struct GrantedRange {
    const KeyEntry* entry = nullptr;
    std::uint64_t version = 0;
    std::uint64_t address = 0, bytes = 0;
    std::uint64_t origin = 0;
    std::uint32_t key = 0;
    Access access = Access::local_read;

    // False once the key was released or its entry reused.
    bool current() const noexcept {
        return entry != nullptr && entry->version.load(std::memory_order_acquire) == version;
    }
    bool covers(std::uint64_t start, std::uint64_t length) const noexcept {
        return start >= address && length <= bytes && start - address <= bytes - length;
    }
};

// All that a key allows.
struct Grant : GrantedRange {
    std::uint64_t file = 0, file_offset = 0;
    std::uint32_t serves = kServesAll;
    std::uint32_t domain = 0;

    bool of_window() const noexcept { return (serves & kOfWindow) != 0; }
    // The owner may unmap the memory, and nobody else notices.
    bool may_vanish() const noexcept { return (file & kPageFile) != 0; }
    // Its pages come when they are touched.
    bool is_sparse() const noexcept { return (file & kSparseFile) != 0; }
    // Whether requests that arrive at this queue pair of the owner may use the key.
    bool serves_queue_pair(std::uint32_t number) const noexcept {
        const std::uint32_t served = serves & kServedMask;
        return served == kServesAll || served == number;
    }
};

// A device's own table, or the read-only view of a peer's.
class KeyTableView {
  public:
    KeyTableView() = default;
    // `first`: the chunk with the header.
    explicit KeyTableView(std::shared_ptr<SharedMemory> first)
        : chunks_(std::make_shared<KeyChunks>()) {
        chunks_->set(0, std::move(first));
    }
    // False if no such key exists now. Reads each word once; a torn entry is never returned.
    bool find(std::uint32_t key, Grant& grant) const noexcept {
        return find_index(key >> 8, grant) && grant.key == key;
    }
    // The key that entry `index` holds now, if any.
    bool find_index(std::uint32_t index, Grant& grant) const noexcept;
    // How many chunks its owner has made.
    std::uint32_t chunks() const noexcept {
        return std::min(header().chunks.load(std::memory_order_acquire), kMostChunks);
    }
    // The key may be in a chunk that the table has and this view not yet.
    bool lacks(std::uint32_t key) const noexcept {
        const std::uint32_t chunk = (key >> 8) / kChunkKeys;
        return !chunks_->has(chunk) && chunk < chunks();
    }
    bool has(std::uint32_t chunk) const noexcept { return chunks_->has(chunk); }
    // One thread at a time; once for each chunk.
    void set(std::uint32_t chunk, std::shared_ptr<SharedMemory> memory) const noexcept {
        chunks_->set(chunk, std::move(memory));
    }
    // Of a chunk that it has.
    int file(std::uint32_t chunk = 0) const noexcept { return chunks_->file(chunk); }

  private:
    friend class KeyEntries;
    KeyTableHeader& header() const noexcept {
        return *reinterpret_cast<KeyTableHeader*>(chunks_->entry(0));
    }
    KeyEntry& entry(std::uint32_t index) const noexcept { return *chunks_->entry(index); }
    std::shared_ptr<KeyChunks> chunks_;
};

}  // namespace verbatim::softnic

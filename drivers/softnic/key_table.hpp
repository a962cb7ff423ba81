// The table of memory keys of one device. It lies in a memory file that the registering process
// writes and its peers map read-only: whoever executes a one-sided operation checks the target's
// key against the target's own table, so a released key is refused at once without asking anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include <verbatim/driver/device.hpp>

#include "shared_memory.hpp"

namespace verbatim::softnic {

inline constexpr std::uint32_t kKeyEntries = 16384;
// Index 0 would make 0 a key; index 1 holds 0x100, which ends receive lists.
inline constexpr std::uint32_t kFirstKeyIndex = 2;

// One key. Owner of every word: the registering process, under KeyTable's mutex. Readers follow
// `version`: odd while the entry changes (or for ever, if its process was killed meanwhile),
// another value after each change.
struct alignas(64) KeyEntry {
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint32_t> key{0};     // index << 8 | variant; 0: free
    std::atomic<std::uint32_t> access{0};  // Access bits
    std::atomic<std::uint64_t> address{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> file{0};  // number of the memory file, 0: private memory
    std::atomic<std::uint64_t> file_offset{0};
};
static_assert(sizeof(KeyEntry) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

// What a key allows, copied out of its entry.
struct Grant {
    const KeyEntry* entry = nullptr;
    std::uint64_t version = 0;
    std::uint64_t address = 0, bytes = 0;
    std::uint64_t file = 0, file_offset = 0;
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

// A device's own table, or the read-only view of a peer's.
class KeyTableView {
  public:
    KeyTableView() = default;
    explicit KeyTableView(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
    // False if no such key exists now. Reads each word once; a torn entry is never returned.
    bool find(std::uint32_t key, Grant& grant) const noexcept {
        return find_index(key >> 8, grant) && grant.key == key;
    }
    // The key that entry `index` holds now, if any.
    bool find_index(std::uint32_t index, Grant& grant) const noexcept;
    int file() const noexcept { return memory_->file(); }

  private:
    friend class KeyTable;
    KeyEntry* entries() const noexcept { return reinterpret_cast<KeyEntry*>(memory_->data()); }
    std::shared_ptr<SharedMemory> memory_;
};
inline constexpr std::size_t kKeyTableBytes = sizeof(KeyEntry) * kKeyEntries;

struct Registration {
    std::uint64_t address = 0, bytes = 0;
    Access access = Access::local_read;
    std::uint64_t file = 0, file_offset = 0;
};

// The owner's side. Threads: any.
class KeyTable {
  public:
    KeyTable();
    // Throws Error(out_of_memory) when all keys are in use.
    std::uint32_t add(const Registration& registration);
    // The key stops working at once.
    void remove(std::uint32_t key) noexcept;
    const KeyTableView& view() const noexcept { return view_; }

  private:
    void publish(std::uint32_t index, std::uint32_t key, const Registration& registration) noexcept;

    KeyTableView view_;
    std::mutex mutex_;
    std::deque<std::uint32_t>
        free_;  // oldest first, so that a variant comes back as late as possible
    std::array<std::uint8_t, kKeyEntries> variants_{};
};

}  // namespace verbatim::softnic

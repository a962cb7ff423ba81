// The table of memory keys of one device, of regions and of windows. It lies in a memory file that
// the registering process writes and its peers map read-only: the executor of a one-sided
// operation checks the target's key against the target's own table, so a released key is refused at
// once without asking anybody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include <verbatim/driver/device.hpp>

#include "../../softqueue/failure_text.hpp"
#include "../host/file_table.hpp"
#include "../host/shared_memory.hpp"
#include "access_registry.hpp"
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

// What a key allows, copied out of its entry.
struct Grant {
    const KeyEntry* entry = nullptr;
    std::uint64_t version = 0;
    std::uint64_t address = 0, bytes = 0;
    std::uint64_t file = 0, file_offset = 0;
    std::uint32_t key = 0;
    Access access = Access::local_read;
    std::uint64_t origin = 0;
    std::uint32_t serves = kServesAll;
    std::uint32_t domain = 0;

    // False once the key was released or its entry reused.
    bool current() const noexcept {
        return entry != nullptr && entry->version.load(std::memory_order_acquire) == version;
    }
    bool covers(std::uint64_t start, std::uint64_t length) const noexcept {
        return start >= address && length <= bytes && start - address <= bytes - length;
    }
    bool of_window() const noexcept { return (serves & kOfWindow) != 0; }
    // The owner may unmap the memory, and nobody else notices.
    bool may_vanish() const noexcept { return (file & kPageFile) != 0; }
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
    friend class KeyTable;
    KeyTableHeader& header() const noexcept {
        return *reinterpret_cast<KeyTableHeader*>(chunks_->entry(0));
    }
    KeyEntry& entry(std::uint32_t index) const noexcept { return *chunks_->entry(index); }
    std::shared_ptr<KeyChunks> chunks_;
};

struct Registration {
    std::uint64_t address = 0, bytes = 0;
    Access access = Access::local_read;
    std::uint64_t file = 0, file_offset = 0;
    std::uint64_t origin = 0;
    std::uint32_t serves = kServesAll;
    std::uint32_t domain = 0;
};

// What became of a request to change a window. Busy: another thread is changing it just now; the
// same call again will succeed or be refused. Revoked: done, and a key that worked before does not
// any more; its memory is free after a Revocation.
enum class KeyUpdate : std::uint8_t { done, refused, busy, revoked };

// A window that is to be opened.
struct WindowOpening {
    std::uint32_t window_key = 0;  // its index counts
    std::uint8_t variant = 0;      // low byte of its key from now on
    WindowType type = WindowType::queue_pair;
    std::uint32_t queue_pair = 0;  // that opens it
    std::uint32_t domain = 0;      // of that one
    std::uint32_t region_key = 0;
    std::uint64_t address = 0, bytes = 0;  // in the owner's memory
    std::uint64_t start = 0;               // what peers call `address`
    Access access = Access::local_read;
};

// The owner's side. Threads: any. What is noexcept and returns a KeyUpdate is for the data path:
// no lock, nobody waits. A removed key is refused from now on; whether somebody uses it still, a
// Revocation says.
class KeyTable {
  public:
    explicit KeyTable(const RevocationOptions& options = {});
    // Throws Error(out_of_memory): all 2^24 keys are in use, or there is no memory for more.
    std::uint32_t add(const Registration& registration);
    // The same key, of a region, for another registration of the same memory. Requests that begin
    // later go by it; for those that began before, a Revocation waits. False: windows are open.
    bool change(std::uint32_t key, const Registration& registration) noexcept;
    // The key stops working at once, and so do those of windows that are open onto it.
    void remove(std::uint32_t key) noexcept;
    // False while windows are open onto the region; after true none can be opened any more.
    bool retire(std::uint32_t key) noexcept;

    // A closed window's key. Throws as add().
    std::uint32_t add_window(WindowType type, std::uint32_t domain = 0);
    void remove_window(std::uint32_t key) noexcept;
    KeyUpdate open_window(const WindowOpening& opening, FailureText& failure) noexcept;
    // Of type 1; `variant`: its key's low byte from now on.
    KeyUpdate close_window(std::uint32_t window_key, FailureText& failure) noexcept;
    // Of type 2, by the queue pair that opened it.
    KeyUpdate invalidate(std::uint32_t key, std::uint32_t queue_pair,
                         FailureText& failure) noexcept;

    const KeyTableView& view() const noexcept { return view_; }
    // Words of all queue pairs that use these keys, and of their peers.
    AccessRegistry& accesses() noexcept { return accesses_; }

  private:
    enum class Kind : std::uint8_t { free, region, domain_window, queue_pair_window };
    // What the owner alone knows of an entry.
    struct Record {
        std::atomic<Kind> kind{Kind::free};
        std::uint32_t domain = 0;               // of a window; set before `kind`
        std::uint8_t variant = 0;               // of the last key; guarded by mutex_
        std::atomic<std::uint32_t> windows{0};  // region: open onto it; kRetired: no more
        // Window: index of the region it is open onto, 0: closed. Changed with the entry.
        std::atomic<std::uint32_t> region{0};
    };
    // Makes an entry odd, and even again.
    class Change;

    static constexpr std::uint32_t kRetired = std::uint32_t{1} << 31;
    static Kind kind_of(WindowType type) noexcept {
        return type == WindowType::domain ? Kind::domain_window : Kind::queue_pair_window;
    }

    // Whether there is such an entry. Then the next two know it.
    bool exists(std::uint32_t index) const noexcept {
        return index >= kFirstKeyIndex && index / kChunkKeys < view_.chunks();
    }
    KeyEntry& entry(std::uint32_t index) const noexcept { return view_.entry(index); }
    Record& record(std::uint32_t index) noexcept {
        return records_[index / kChunkKeys][index % kChunkKeys];
    }
    std::uint32_t count() const noexcept { return view_.chunks() * kChunkKeys; }
    void add_chunk(std::uint32_t chunk);
    void grow();
    std::uint32_t take_index();
    void give_index(std::uint32_t index) noexcept;
    void publish(std::uint32_t index, std::uint32_t key, const Registration& registration) noexcept;
    void store(KeyEntry& entry, std::uint32_t key, const Registration& registration) noexcept;
    bool find_region(const WindowOpening& opening, Grant& region, FailureText& failure) noexcept;
    bool hold(std::uint32_t region) noexcept;
    void let_go(std::uint32_t index) noexcept;
    void close_windows_of(std::uint32_t region) noexcept;
    KeyUpdate shut(std::uint32_t index) noexcept;

    AccessRegistry accesses_;
    KeyTableView view_;
    std::mutex mutex_;
    std::deque<std::uint32_t>
        free_;  // oldest first, so that a variant comes back as late as possible
    // One for each chunk; set before the chunk is counted.
    std::array<std::unique_ptr<Record[]>, kMostChunks> records_;
};

}  // namespace verbatim::softnic

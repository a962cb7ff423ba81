// The table of memory keys of one device, of regions and of windows. It lies in a memory file that
// the registering process writes and its peers map read-only: whoever executes a one-sided
// operation checks the target's key against the target's own table, so a released key is refused at
// once without asking anybody.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "failure_text.hpp"
#include "file_table.hpp"
#include "shared_memory.hpp"

namespace verbatim::softnic {

inline constexpr std::uint32_t kKeyEntries = 16384;
// Index 0 would make 0 a key; index 1 holds 0x100, which ends receive lists.
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
    std::uint64_t origin = 0;
    std::uint32_t serves = kServesAll;
    std::uint32_t domain = 0;
};

// What became of a request to change a window. Busy: another thread is changing it just now; the
// same call again will succeed or be refused.
enum class KeyUpdate : std::uint8_t { done, refused, busy };

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
// no lock, nobody waits.
class KeyTable {
  public:
    KeyTable();
    // Throws Error(out_of_memory) when all keys are in use.
    std::uint32_t add(const Registration& registration);
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

    std::uint32_t take_index();
    void give_index(std::uint32_t index) noexcept;
    void publish(std::uint32_t index, std::uint32_t key, const Registration& registration) noexcept;
    void store(KeyEntry& entry, std::uint32_t key, const Registration& registration) noexcept;
    bool find_region(const WindowOpening& opening, Grant& region, FailureText& failure) noexcept;
    bool hold(std::uint32_t region) noexcept;
    void let_go(std::uint32_t index) noexcept;
    void close_windows_of(std::uint32_t region) noexcept;
    KeyUpdate shut(std::uint32_t index) noexcept;

    KeyTableView view_;
    std::mutex mutex_;
    std::deque<std::uint32_t>
        free_;  // oldest first, so that a variant comes back as late as possible
    std::vector<Record> records_{kKeyEntries};
};

}  // namespace verbatim::softnic

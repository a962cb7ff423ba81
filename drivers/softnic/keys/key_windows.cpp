// Changes of windows. A change of a window first makes its entry's version odd by a
// compare-and-swap; a second one meanwhile is told to come again. Rules: InfiniBand Architecture
// Specification, "Memory Windows" (binding needs the region's consent; no write through a window
// onto what may not be written locally; type 2 only where it is closed).
#include <sched.h>

#include "../host/shared_store.hpp"
#include "key_windows.hpp"

namespace verbatim::softnic {

namespace {

KeyRecord::Kind window_kind(WindowType type) noexcept {
    return type == WindowType::domain ? KeyRecord::Kind::domain_window
                                      : KeyRecord::Kind::queue_pair_window;
}

}  // namespace

class KeyWindows::Change {
  public:
    explicit Change(KeyEntry& entry) noexcept : entry_(entry) {
        version_ = entry.version.load(std::memory_order_relaxed);
        before_store();
        begun_ = (version_ & 1) == 0 && entry.version.compare_exchange_strong(
                                            version_, version_ + 1, std::memory_order_acquire);
    }
    ~Change() {
        if (begun_) store_release(entry_.version, version_ + 2);
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    bool begun() const noexcept { return begun_; }

  private:
    KeyEntry& entry_;
    std::uint64_t version_;
    bool begun_;
};

std::uint32_t KeyWindows::add(WindowType type, std::uint32_t domain) {
    const std::uint32_t index = entries_.take();
    KeyRecord& made = entries_.record(index);
    made.domain = domain;
    made.kind.store(window_kind(type), std::memory_order_release);
    return index << 8 | ++made.variant;
}

void KeyWindows::remove(std::uint32_t key) noexcept {
    const std::uint32_t index = key >> 8;
    const KeyEntry& entry = entries_.entry(index);
    // Should it be opened at the next moment, that thread finds no window any more.
    entries_.record(index).kind.store(KeyRecord::Kind::free);
    const std::uint32_t last = entry.key.load(std::memory_order_relaxed);
    if (last != 0) entries_.record(index).variant = static_cast<std::uint8_t>(last);
    while (shut(index) == KeyUpdate::busy) sched_yield();
    entries_.give_back(index);
}

// Closes a window whatever it is.
KeyUpdate KeyWindows::shut(std::uint32_t index) noexcept {
    KeyEntry& entry = entries_.entry(index);
    const Change change(entry);
    if (!change.begun()) return KeyUpdate::busy;
    const bool open = entry.key.load(std::memory_order_relaxed) != 0;
    if (open) KeyEntries::store(entry, 0, {});
    let_go(index);
    return open ? KeyUpdate::revoked : KeyUpdate::done;
}

// The region behind a window is not its any more. Under the window's Change.
void KeyWindows::let_go(std::uint32_t index) noexcept {
    const std::uint32_t region = entries_.record(index).region.exchange(0);
    if (region != 0) entries_.record(region).windows.fetch_sub(1);
}

// False: the region is being released.
bool KeyWindows::hold(std::uint32_t region) noexcept {
    std::uint32_t windows = entries_.record(region).windows.load();
    do {
        if ((windows & KeyRecord::kRetired) != 0) return false;
    } while (!entries_.record(region).windows.compare_exchange_weak(windows, windows + 1));
    return true;
}

// After `region` was retired. A window that was being opened onto it at that moment has an odd
// version until it says so.
void KeyWindows::close_all_of(std::uint32_t region) noexcept {
    for (std::uint32_t index = kFirstKeyIndex; index < entries_.count(); ++index) {
        const KeyEntry& entry = entries_.entry(index);
        while ((entry.version.load() & 1) != 0) sched_yield();
        if (entries_.record(index).region.load() != region) continue;
        while (shut(index) == KeyUpdate::busy) sched_yield();
    }
}

// The region a window is to be opened onto, held.
bool KeyWindows::find_region(const WindowOpening& opening, Grant& region,
                             FailureText& failure) noexcept {
    constexpr Access kChanges = Access::remote_write | Access::remote_atomic;
    if (!entries_.view().find(opening.region_key, region) || region.of_window()) {
        failure.set("key {:#x}, onto which a window is to be opened, is no region's",
                    opening.region_key);
        return false;
    }
    if (region.domain != opening.domain) {
        failure.set("region {:#x} is of another protection domain", opening.region_key);
        return false;
    }
    const bool changes =
        (static_cast<unsigned>(opening.access) & static_cast<unsigned>(kChanges)) != 0;
    if (!allows(region.access, Access::window_bind) ||
        (changes && !allows(region.access, Access::local_write))) {
        failure.set("region {:#x} allows access {:#x}: no windows, or none that can be written",
                    region.key, static_cast<unsigned>(region.access));
        return false;
    }
    if (!region.covers(opening.address, opening.bytes)) {
        failure.set("a window of {} bytes at {:#x} is to be opened onto {} bytes at {:#x}",
                    opening.bytes, opening.address, region.bytes, region.address);
        return false;
    }
    if (hold(region.key >> 8)) {
        // Another region may have got the entry before it was held.
        if (region.current()) return true;
        entries_.record(region.key >> 8).windows.fetch_sub(1);
    }
    failure.set("region {:#x} is being released", opening.region_key);
    return false;
}

KeyUpdate KeyWindows::open(const WindowOpening& opening, FailureText& failure) noexcept {
    const std::uint32_t index = opening.window_key >> 8;
    if (!entries_.exists(index) ||
        entries_.record(index).kind.load() != window_kind(opening.type)) {
        failure.set("key {:#x} is no memory window of this type", opening.window_key);
        return KeyUpdate::refused;
    }
    KeyEntry& entry = entries_.entry(index);
    const Change change(entry);
    if (!change.begun()) return KeyUpdate::busy;
    const bool closed = entry.key.load(std::memory_order_relaxed) == 0;
    const bool of_queue_pair = opening.type == WindowType::queue_pair;
    if ((of_queue_pair && !closed) || entries_.record(index).kind.load() == KeyRecord::Kind::free) {
        failure.set("window {:#x} is open: it must be invalidated before it is opened again",
                    opening.window_key);
        return KeyUpdate::refused;
    }
    if (entries_.record(index).domain != opening.domain) {
        failure.set("window {:#x} is of another protection domain", opening.window_key);
        return KeyUpdate::refused;
    }
    Grant region;
    if (!find_region(opening, region, failure)) return KeyUpdate::refused;
    let_go(index);
    entries_.record(index).region.store(region.key >> 8);
    const std::uint64_t into = opening.address - region.address;
    KeyEntries::store(
        entry, index << 8 | opening.variant,
        {opening.start, opening.bytes, opening.access, region.file, region.file_offset + into,
         opening.address - opening.start,
         kOfWindow | (of_queue_pair ? opening.queue_pair : kServesAll), opening.domain});
    return closed ? KeyUpdate::done : KeyUpdate::revoked;
}

KeyUpdate KeyWindows::close(std::uint32_t window_key, FailureText& failure) noexcept {
    const std::uint32_t index = window_key >> 8;
    if (!entries_.exists(index) ||
        entries_.record(index).kind.load() != KeyRecord::Kind::domain_window) {
        failure.set("key {:#x} is no memory window of type 1", window_key);
        return KeyUpdate::refused;
    }
    return shut(index);
}

KeyUpdate KeyWindows::invalidate(std::uint32_t key, std::uint32_t queue_pair,
                                 FailureText& failure) noexcept {
    const std::uint32_t index = key >> 8;
    if (!entries_.exists(index) ||
        entries_.record(index).kind.load() != KeyRecord::Kind::queue_pair_window) {
        failure.set("key {:#x} cannot be invalidated: it is no memory window of type 2", key);
        return KeyUpdate::refused;
    }
    KeyEntry& entry = entries_.entry(index);
    const Change change(entry);
    if (!change.begun()) return KeyUpdate::busy;
    const std::uint32_t serves = entry.serves.load(std::memory_order_relaxed) & kServedMask;
    if (entry.key.load(std::memory_order_relaxed) != key || serves != queue_pair) {
        failure.set("window {:#x} is not open, or open for another queue pair", key);
        return KeyUpdate::refused;
    }
    KeyEntries::store(entry, 0, {});
    let_go(index);
    return KeyUpdate::revoked;
}

}  // namespace verbatim::softnic

// The table of memory keys of one device, of regions and of windows. A removed key is refused from
// now on; whether somebody uses it still, a Revocation says. Threads: any.
#pragma once

#include <cstdint>
#include <mutex>

#include "access_registry.hpp"
#include "key_windows.hpp"

namespace verbatim::softnic {

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
    // For what requests do with windows.
    KeyWindows& windows() noexcept { return windows_; }

    const KeyTableView& view() const noexcept { return entries_.view(); }
    // Words of all queue pairs that use these keys, and of their peers.
    AccessRegistry& accesses() noexcept { return accesses_; }

  private:
    AccessRegistry accesses_;
    KeyEntries entries_;
    KeyWindows windows_;
    std::mutex mutex_;  // of what takes entries and gives them back
};

}  // namespace verbatim::softnic

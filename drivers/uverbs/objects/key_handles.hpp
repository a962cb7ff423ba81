// The memory regions and windows of a device file by handle: each one counts as a user of its
// protection domain and of its device memory. Threads: under the device file's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "handle_table.hpp"
#include "objects.hpp"

namespace verbatim::uverbs {

class KeyHandles {
  public:
    // Null if there is no such key.
    Key* find(std::uint32_t handle) const noexcept { return keys_.find(handle); }
    // Any key that `wanted` says yes to, or null.
    template <class Wanted>
    const Key* find_if(Wanted&& wanted) const {
        return keys_.find_if(std::forward<Wanted>(wanted));
    }
    // 0: there are no more handles.
    std::uint32_t add(const Key& key) {
        const std::uint32_t handle = keys_.add(std::make_unique<Key>(key));
        if (handle == 0) return 0;
        ++key.domain->users;
        if (key.device_memory != nullptr) ++key.device_memory->users;
        return handle;
    }
    // The key must be there.
    void remove(std::uint32_t handle) {
        const Key& key = *keys_.find(handle);
        --key.domain->users;
        if (key.device_memory != nullptr) --key.device_memory->users;
        keys_.remove(handle);
    }

  private:
    HandleTable<Key> keys_;
};

}  // namespace verbatim::uverbs

// rdma-core's objects behind memory keys: a work request names keys, verbs wants the objects where
// a window is opened. Lookups take no lock. Threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace verbatim::verbs {

// Windows, and the regions that windows may be opened onto. The low byte of a key is its owner's
// and changes; the rest stays.
class KeyTable {
  public:
    // Throws Error(out_of_memory).
    void add(std::uint32_t key, ibv_mw* window) { add_object(key, window, kWindow); }
    void add(std::uint32_t key, ibv_mr* region) { add_object(key, region, kRegion); }
    void remove(const void* object) noexcept;
    // Null: no such key.
    ibv_mw* window(std::uint32_t key) const noexcept {
        return static_cast<ibv_mw*>(find(key, kWindow));
    }
    ibv_mr* region(std::uint32_t key) const noexcept {
        return static_cast<ibv_mr*>(find(key, kRegion));
    }

  private:
    // [31:8] of the key, [1:0] what it is the key of; 0: free, 3: was in use.
    enum Kind : std::uint32_t { kWindow = 1, kRegion = 2 };
    static constexpr std::uint32_t kFree = 0, kWasUsed = 3;
    static constexpr std::uint32_t kPlaces = 4096;

    struct Place {
        std::atomic<std::uint32_t> name{kFree};
        std::atomic<void*> object{nullptr};
    };

    static std::uint32_t name_of(std::uint32_t key, Kind kind) noexcept {
        return (key & ~0xffU) | kind;
    }
    static std::uint32_t first_place(std::uint32_t name) noexcept {
        return (name >> 8) * 2654435761U >> 20;  // Fibonacci hashing; 12 bits
    }
    void add_object(std::uint32_t key, void* object, Kind kind);
    void* find(std::uint32_t key, Kind kind) const noexcept;

    std::array<Place, kPlaces> places_;
    std::mutex mutex_;  // of add and remove
};

}  // namespace verbatim::verbs

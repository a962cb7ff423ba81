// The entries of a key table, in chunks of a memory file each: a table grows by chunks, which stay
// where they are, and peers map those that they need. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "../host/shared_memory.hpp"

namespace verbatim::softnic {

struct KeyEntry;

inline constexpr std::uint32_t kChunkKeys = 16384;
// 24 bits of index in a key.
inline constexpr std::uint32_t kMostKeys = 1U << 24, kMostChunks = kMostKeys / kChunkKeys;

class KeyChunks {
  public:
    // Null: it is not mapped here (yet), or there is none.
    KeyEntry* entry(std::uint32_t index) const noexcept {
        if (index >= kMostKeys) return nullptr;
        KeyEntry* const first = first_[index / kChunkKeys].load(std::memory_order_acquire);
        return first == nullptr ? nullptr : at(first, index % kChunkKeys);
    }
    bool has(std::uint32_t chunk) const noexcept {
        return first_[chunk].load(std::memory_order_acquire) != nullptr;
    }
    int file(std::uint32_t chunk) const noexcept { return memory_[chunk]->file(); }
    // One at a time; once for each chunk.
    void set(std::uint32_t chunk, std::shared_ptr<SharedMemory> memory) noexcept {
        memory_[chunk] = std::move(memory);
        first_[chunk].store(reinterpret_cast<KeyEntry*>(memory_[chunk]->data()),
                            std::memory_order_release);
    }

  private:
    static KeyEntry* at(KeyEntry* first, std::uint32_t index) noexcept;

    std::array<std::atomic<KeyEntry*>, kMostChunks> first_{};
    std::array<std::shared_ptr<SharedMemory>, kMostChunks> memory_;
};

}  // namespace verbatim::softnic

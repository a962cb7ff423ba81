// Objects by the small numbers that the kernel's interface calls handles. Looking up takes no lock,
// because polling and posting threads do it; the destroyer of an object must not use it at the same
// time, as with the real thing. Threads: find() any; the others under the device file's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace verbatim::uverbs {

template <class T>
class HandleTable {
  public:
    HandleTable() = default;
    HandleTable(const HandleTable&) = delete;
    HandleTable& operator=(const HandleTable&) = delete;
    ~HandleTable() {
        for (auto& chunk : chunks_)
            if (Chunk* const entries = chunk.load(std::memory_order_relaxed)) {
                for (auto& entry : *entries) delete entry.load(std::memory_order_relaxed);
                delete entries;
            }
    }

    // Null if there is no such object.
    T* find(std::uint32_t handle) const noexcept {
        const std::size_t chunk = handle / kChunkEntries;
        if (chunk >= kChunks) return nullptr;
        const Chunk* const entries = chunks_[chunk].load(std::memory_order_acquire);
        return entries == nullptr
                   ? nullptr
                   : (*entries)[handle % kChunkEntries].load(std::memory_order_acquire);
    }
    // Any object that `wanted` says yes to, or null. Under the lock, as it looks at all.
    template <class Wanted>
    T* find_if(Wanted&& wanted) const {
        for (std::size_t handle = 1; handle < used_chunks_ * kChunkEntries; ++handle)
            if (T* const object = find(static_cast<std::uint32_t>(handle));
                object != nullptr && wanted(*object))
                return object;
        return nullptr;
    }
    // The new object's handle; 0: no more handles.
    std::uint32_t add(std::unique_ptr<T> object) {
        if (free_.empty() && !grow()) return 0;
        const std::uint32_t handle = free_.back();
        free_.pop_back();
        entry(handle).store(object.release(), std::memory_order_release);
        return handle;
    }
    // The object must be there.
    void remove(std::uint32_t handle) {
        delete entry(handle).exchange(nullptr);
        free_.push_back(handle);
    }

  private:
    static constexpr std::size_t kChunkEntries = 512, kChunks = 128;
    using Chunk = std::array<std::atomic<T*>, kChunkEntries>;

    std::atomic<T*>& entry(std::uint32_t handle) {
        return (*chunks_[handle / kChunkEntries].load())[handle % kChunkEntries];
    }
    bool grow() {
        if (used_chunks_ == kChunks) return false;
        chunks_[used_chunks_].store(new Chunk{}, std::memory_order_release);
        // Handle 0 stays unused: no object is mistaken for a missing one. Low ones go out first.
        const std::size_t first = used_chunks_ * kChunkEntries;
        for (std::size_t i = kChunkEntries; i-- > (first == 0 ? 1 : 0);)
            free_.push_back(static_cast<std::uint32_t>(first + i));
        ++used_chunks_;
        return true;
    }

    std::array<std::atomic<Chunk*>, kChunks> chunks_{};
    std::size_t used_chunks_ = 0;
    std::vector<std::uint32_t> free_;
};

}  // namespace verbatim::uverbs

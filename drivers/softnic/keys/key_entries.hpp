// The owner's side of a key table's entries: memory for them, free ones, what the owner alone knows
// of each, and stores that readers never see half.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "key_table_view.hpp"

namespace verbatim::softnic {

struct Registration {
    std::uint64_t address = 0, bytes = 0;
    Access access = Access::local_read;
    std::uint64_t file = 0, file_offset = 0;
    std::uint64_t origin = 0;
    std::uint32_t serves = kServesAll;
    std::uint32_t domain = 0;
};

// What the owner alone knows of an entry.
struct KeyRecord {
    enum class Kind : std::uint8_t { free, region, domain_window, queue_pair_window };
    static constexpr std::uint32_t kRetired = std::uint32_t{1} << 31;

    std::atomic<Kind> kind{Kind::free};
    std::uint32_t domain = 0;               // of a window; set before `kind`
    std::uint8_t variant = 0;               // of the last key; guarded by the table's lock
    std::atomic<std::uint32_t> windows{0};  // region: open onto it; kRetired: no more
    // Window: index of the region it is open onto, 0: closed. Changed with the entry.
    std::atomic<std::uint32_t> region{0};
};

// Threads: any, but for take() and give_back(), which the table's lock guards.
class KeyEntries {
  public:
    KeyEntries();
    const KeyTableView& view() const noexcept { return view_; }

    // Whether there is such an entry. Then the next two know it.
    bool exists(std::uint32_t index) const noexcept {
        return index >= kFirstKeyIndex && index / kChunkKeys < view_.chunks();
    }
    KeyEntry& entry(std::uint32_t index) const noexcept { return view_.entry(index); }
    KeyRecord& record(std::uint32_t index) noexcept {
        return records_[index / kChunkKeys][index % kChunkKeys];
    }
    std::uint32_t count() const noexcept { return view_.chunks() * kChunkKeys; }

    // A free entry. Throws Error(out_of_memory): all 2^24 keys are in use, or there is no memory
    // for more.
    std::uint32_t take();
    void give_back(std::uint32_t index) noexcept;
    // While the entry's version is odd.
    static void store(KeyEntry& entry, std::uint32_t key,
                      const Registration& registration) noexcept;
    // Of a region, which nobody else changes.
    void publish(std::uint32_t index, std::uint32_t key, const Registration& registration) noexcept;

  private:
    void add_chunk(std::uint32_t chunk);
    void grow();

    KeyTableView view_;
    std::deque<std::uint32_t>
        free_;  // oldest first, so that a variant comes back as late as possible
    // One for each chunk; set before the chunk is counted.
    std::array<std::unique_ptr<KeyRecord[]>, kMostChunks> records_;
};

}  // namespace verbatim::softnic

// Notes are words of a lane, one for each of its connections, that peers write (docs/arrival.md,
// "Notes"). They lie together, so that a lane looks at eight connections in one line. Each is a
// region of its own: no peer reaches another's note. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../arena/region_table.hpp"
#include "posted_lines.hpp"

namespace verbatim {

// A page of notes, in lines of eight. Owner of each word: its peer.
struct alignas(64) NotePage {
    static constexpr std::size_t kOfLine = 8, kLines = 64, kNotes = kOfLine * kLines;
    std::uint64_t words[kNotes]{};
};

class NotePool {
  public:
    // `memory` outlives the pool.
    explicit NotePool(PostedLines& memory) : memory_(memory) {}
    ~NotePool();
    NotePool(const NotePool&) = delete;
    NotePool& operator=(const NotePool&) = delete;

    // A connection's note. It keeps the pool.
    class Note {
      public:
        // Throws what the arena and the device throw.
        explicit Note(std::shared_ptr<NotePool> pool);
        ~Note();
        Note(const Note&) = delete;
        Note& operator=(const Note&) = delete;
        // Ends the peer's right to it. False: a process is stopped in the middle of a write there.
        bool release() noexcept { return verbatim::release(*region_, "note"); }
        // Where it is among those of the lane.
        std::size_t page_number() const noexcept { return slot_ / NotePage::kNotes; }
        std::size_t place() const noexcept { return slot_ % NotePage::kNotes; }
        const NotePage& page() const noexcept { return *page_; }
        std::uint64_t address() const noexcept {
            return reinterpret_cast<std::uint64_t>(&page_->words[place()]);
        }
        std::uint32_t remote_key() const noexcept { return region_->remote_key(); }

      private:
        std::shared_ptr<NotePool> pool_;
        std::uint32_t slot_ = 0;
        NotePage* page_ = nullptr;
        std::unique_ptr<MemoryRegion> region_;
    };

  private:
    void grow();
    void give_back(std::uint32_t slot) noexcept;

    PostedLines& memory_;
    std::mutex mutex_;
    std::vector<NotePage*> pages_;
    std::vector<std::uint32_t> free_;  // slots, a heap with the lowest first; room for all
};

}  // namespace verbatim

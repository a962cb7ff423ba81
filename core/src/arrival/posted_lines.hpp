// Two lines of memory for each connection (docs/arrival.md): the positions of what this side has
// posted, which the peer reads, and this side's copy of the peer's. They lie together in an arena
// of their own, each pair under a key of its own. Notes (note_pool.hpp) lie there, too. Threads:
// any.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <verbatim/core/arena.hpp>
#include <verbatim/driver/device.hpp>

#include "arrival_words.hpp"

namespace verbatim {

class PostedLines {
  public:
    PostedLines(Device& device, const ArenaOptions& like);

    Arena& arena() noexcept { return arena_; }
    // Makes memory of the arena a region. Throws what the device throws.
    std::unique_ptr<MemoryRegion> lend(std::span<std::byte> memory, Access access);

    class Line {
      public:
        // Throws what the arena and the device throw.
        explicit Line(PostedLines& lines);
        ~Line();
        Line(const Line&) = delete;
        Line& operator=(const Line&) = delete;
        PostedWords& words() const noexcept { return lines_->words; }
        PostedCopy& copy() const noexcept { return lines_->copy; }
        std::uint32_t local_key() const noexcept { return region_->local_key(); }
        std::uint32_t remote_key() const noexcept { return region_->remote_key(); }

      private:
        struct Lines {
            PostedWords words;
            PostedCopy copy;
        };
        Arena& arena_;
        Lines* lines_;
        std::unique_ptr<MemoryRegion> region_;
    };

  private:
    Device& device_;
    Arena arena_;
};

}  // namespace verbatim

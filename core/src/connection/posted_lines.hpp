// Lines of memory that peers read, one for each connection: the positions of what was posted
// (docs/arrival.md). They lie together in an arena of their own, each under a key of its own.
// Threads: any.
#pragma once

#include <memory>

#include <verbatim/core/arena.hpp>
#include <verbatim/driver/device.hpp>

#include "../arrival/arrival_words.hpp"

namespace verbatim {

class PostedLines {
  public:
    PostedLines(Device& device, const ArenaOptions& like);

    class Line {
      public:
        // Throws what the arena and the device throw.
        explicit Line(PostedLines& lines);
        ~Line();
        Line(const Line&) = delete;
        Line& operator=(const Line&) = delete;
        PostedWords& words() const noexcept { return *words_; }
        std::uint32_t remote_key() const noexcept { return region_->remote_key(); }

      private:
        Arena& arena_;
        PostedWords* words_;
        std::unique_ptr<MemoryRegion> region_;
    };

  private:
    Device& device_;
    Arena arena_;
};

}  // namespace verbatim

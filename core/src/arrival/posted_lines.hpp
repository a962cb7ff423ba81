// Lines of memory for each connection (docs/arrival.md): the positions of what this side has
// posted, which the peer reads, with this side's copy of the peer's; and the words that the peer
// writes. They lie together in an arena of their own, each pair under a key of its own, so that
// idle connections share pages. Notes (note_pool.hpp) lie there, too. Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <verbatim/core/arena.hpp>
#include <verbatim/driver/device.hpp>

#include "../arena/region_table.hpp"
#include "arrival_words.hpp"

namespace verbatim {

class PostedLines {
  public:
    PostedLines(Device& device, const ArenaOptions& like);

    Arena& arena() noexcept { return arena_; }
    // Makes memory of the arena a region. Throws what the device throws.
    std::unique_ptr<MemoryRegion> lend(std::span<std::byte> memory, Access access);

    // A pair of lines, which is one region. Throws what the arena and the device throw.
    template <class Pair>
    class Lent {
      public:
        Lent(PostedLines& lines, Access access)
            : arena_(lines.arena_), pair_(arena_.template make<Pair>()) {
            try {
                region_ = lines.lend(std::as_writable_bytes(std::span(pair_, 1)), access);
            } catch (...) {
                arena_.destroy(pair_);
                throw;
            }
        }
        ~Lent() {
            region_.reset();
            arena_.destroy(pair_);
        }
        Lent(const Lent&) = delete;
        Lent& operator=(const Lent&) = delete;
        Pair& operator*() const noexcept { return *pair_; }
        MemoryRegion& region() const noexcept { return *region_; }

      private:
        Arena& arena_;
        Pair* pair_;
        std::unique_ptr<MemoryRegion> region_;
    };

    class Line {
      public:
        // Throws what the arena and the device throw.
        explicit Line(PostedLines& lines)
            : lines_(lines, Access::remote_read | Access::local_write) {}
        PostedWords& words() const noexcept { return (*lines_).words; }
        PostedCopy& copy() const noexcept { return (*lines_).copy; }
        std::uint32_t local_key() const noexcept { return lines_.region().local_key(); }
        std::uint32_t remote_key() const noexcept { return lines_.region().remote_key(); }

      private:
        struct Lines {
            PostedWords words;
            PostedCopy copy;
        };
        const Lent<Lines> lines_;
    };
    // What the peer writes.
    class PeerLine {
      public:
        // Throws what the arena and the device throw.
        explicit PeerLine(PostedLines& lines)
            : words_(lines, Access::local_write | Access::remote_write) {}
        PeerWords& words() const noexcept { return *words_; }
        std::uint32_t remote_key() const noexcept { return words_.region().remote_key(); }
        // Ends the peer's right to it. False: a process is stopped in the middle of a write there.
        bool release() noexcept { return verbatim::release(words_.region(), "words of a peer"); }

      private:
        const Lent<PeerWords> words_;
    };

  private:
    Device& device_;
    Arena arena_;
};

}  // namespace verbatim

// A post window holds the blocks of a send queue that the next posts may take without further
// tests. One comparison against it is the admission test of every post. It ends with the room, with
// the ring, and where the counter's low byte would carry. It is closed while the next request must
// be fenced, and where doorbells must test the register. SendRing opens it. Threads: those of the
// queue.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/mlx5/endian.hpp>

namespace verbatim::mlx5 {

class PostWindow {
  public:
    // Counter of the next block.
    std::uint32_t next() const noexcept { return be32::from_raw(record()).native(); }
    // The same as the doorbell record has it.
    std::uint32_t record() const noexcept { return static_cast<std::uint32_t>(record_); }
    // The same where a control segment has it: in the record's byte order, a byte further on. The
    // record is [0 0 hi lo], a control segment [opcode-modifier hi lo opcode].
    const std::byte* index_bytes() const noexcept {
        return reinterpret_cast<const std::byte*>(&record_) + 1;
    }

    // That, in a unit of zeros. As a number of another kind, because compilers take integers
    // through a general register where they are also stored.
    __m128i index_unit() const noexcept {
        float bits;
        std::memcpy(&bits, index_bytes(), sizeof bits);
        return _mm_castps_si128(_mm_set_ss(bits));
    }

    // The next block: in the ring, the place of its id, and record() with zeros behind. A copy,
    // because for compilers a store to a ring may change the window.
    struct Place {
        std::byte* block;
        std::uint64_t* id;
        std::uint64_t record;
    };
    [[gnu::always_inline]] Place place() const noexcept { return {block_, id_, record_}; }

    // The admission test: these blocks are free, are contiguous, and their request needs no fence
    // and no test of the register.
    template <std::uint32_t kBlocks>
    [[gnu::always_inline]] bool admits() const noexcept {
        return record_ + std::uint64_t{kBlocks} * kStep <= stop_;
    }
    bool admits(std::uint32_t blocks) const noexcept { return this->blocks() >= blocks; }
    // True if the counter's low byte would carry. The window never admits such blocks.
    bool carries(std::uint32_t blocks) const noexcept { return (next() & 0xff) + blocks > 0xff; }
    // The number of its blocks.
    std::uint32_t blocks() const noexcept {
        return static_cast<std::uint32_t>(stop_ - record_) / kStep;
    }
    // A request took as many blocks from place() on, and they were admitted. The new record().
    [[gnu::always_inline]] std::uint32_t take(const Place& from, std::uint32_t blocks) noexcept {
        const std::uint64_t record = from.record + std::uint64_t{blocks} * kStep;
        record_ = record;
        block_ += std::size_t{blocks} * kBlockBytes;
        id_ += blocks;
        return static_cast<std::uint32_t>(record);
    }

    // The ring of the window: `mask` + 1 blocks, and as many ids.
    struct Ring {
        std::byte* blocks;
        std::uint64_t* ids;
        std::uint32_t mask;
    };
    // Closes it, with the next block at this counter.
    void close(std::uint32_t next, const Ring& ring) noexcept {
        record_ = stop_ = be32(next & 0xffff).raw();
        const std::size_t slot = next & ring.mask;
        block_ = ring.blocks + slot * kBlockBytes;
        id_ = ring.ids + slot;
    }
    // Opens it where it is, `free` blocks long or less.
    void open(std::uint32_t free, const Ring& ring) noexcept {
        const std::uint32_t at = next(), slot = at & ring.mask;
        if (slot == 0) {
            block_ = ring.blocks;
            id_ = ring.ids;
        }
        const std::uint32_t to_carry = 0xff - (at & 0xff), to_end = ring.mask + 1 - slot;
        stop_ = record_ + std::uint64_t{std::min({free, to_carry, to_end})} * kStep;
    }

  private:
    static constexpr std::size_t kBlockBytes = 64;
    // One block further in record_, where the low byte of the counter does not carry.
    static constexpr std::uint32_t kStep = 1U << 24;

    // In this order, because compilers make a vector of neighbours, which takes longer.
    std::uint64_t record_ = 0;  // zeros behind the record
    std::byte* block_ = nullptr;
    std::uint64_t stop_ = 0;  // record_ at the window's end
    std::uint64_t* id_ = nullptr;
};

}  // namespace verbatim::mlx5

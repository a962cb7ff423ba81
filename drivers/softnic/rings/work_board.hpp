// A work board is a two-level bitmap in shared memory: which channels of one memory file have
// something new. The peer marks, the file's owner takes; so a poll looks at the queue pairs that
// have work, and at no idle one.
//
// Words. `leaves`: one bit for each slot of the file. `summary`: one bit for each leaf. The peer
// only sets bits, leaf before summary; the owner only clears them, summary before leaf. A peer
// marks after it has stored the work and executed a full fence, and only where the channel's
// `listens` word asks for it (channel.hpp): the owner looks at busy channels by itself.
//
// No mark is lost. All accesses here are sequentially consistent. When mark() has accessed the leaf
// its bit is set. If a take() empties that leaf later, its caller looks at the channel later still,
// and sees the work. If none does, the bit stays; then the bit that mark() has left in the summary
// stays too, because a take() which clears it afterwards empties the leaf afterwards. Reading
// before writing changes nothing in this: a bit found set counts as one set at that moment.
//
// Late and spurious marks. A thread of the peer that is preempted between leaf and summary delays
// its own mark, unless another thread marks a slot of the same leaf: each mark() sees to the
// summary's bit whatever it found in the leaf. A bit may be set for work that was found already, or
// for a slot that is free; it costs a look. A peer that is killed between two of the stores leaves
// work without a mark: the end of its link makes the owner look at all (QueuePair::wake()). A peer
// that sets bits at random costs looks at its own channels, at most kSlots for each call; one that
// clears bits delays its own messages. The owner's pointers lie in memory that no peer maps.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

class WorkBoard {
  public:
    static constexpr std::uint32_t kLeafBits = 64, kSlots = kLeafBits * 64;

    // The peer's: any of its threads, after a full fence.
    void mark(std::uint32_t slot) noexcept {
        set(leaves_[slot / kLeafBits], std::uint64_t{1} << slot % kLeafBits);
        set(summary_, std::uint64_t{1} << slot / kLeafBits);
    }

    // The owner's: any of its threads. Calls `found` with each marked slot; the caller looks at the
    // slot's channel afterwards.
    template <class Found>
    void take(Found&& found) noexcept {
        if (summary_.load() == 0) [[likely]]
            return;
        for_each_bit(summary_.exchange(0), [&](std::uint32_t leaf) {
            const std::uint64_t marked = leaves_[leaf].exchange(0);
            // A mark that was there already when its marker looked was stored by another one.
            std::atomic_thread_fence(std::memory_order_seq_cst);
            for_each_bit(marked, [&](std::uint32_t bit) { found(leaf * kLeafBits + bit); });
        });
    }

  private:
    static void set(std::atomic<std::uint64_t>& word, std::uint64_t bit) noexcept {
        if ((word.load() & bit) != 0) return;
        before_store();
        word.fetch_or(bit);
    }
    template <class Function>
    static void for_each_bit(std::uint64_t word, Function&& function) noexcept {
        for (; word != 0; word &= word - 1)
            function(static_cast<std::uint32_t>(std::countr_zero(word)));
    }

    alignas(64) std::atomic<std::uint64_t> summary_{0};
    alignas(64) std::array<std::atomic<std::uint64_t>, 64> leaves_{};
};
static_assert(sizeof(WorkBoard) == 64 + 64 * 8);

}  // namespace verbatim::softnic

// A send queue all of whose slots hold one operation, encoded when it was made: a post patches what
// changes (remote address, and payload or element addresses) in place and writes an 8-byte
// doorbell, so that no image is copied, neither to the ring nor to the register. For a queue pair
// that does one thing: a stream of reads with the same ten elements, of counters, of ring records.
//
// Slots are a power of two of blocks, so that they fall on the same blocks in every lap; what a
// request leaves of its slot, no-ops fill (they cost the device a moment, and complete only where
// all is flushed: nobody hears of them). Which copy strategy pays when: docs/development.md.
// Threads: one at a time, the same that polls the completion queue it is attached to.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/fixed_shape.hpp>
#include <verbatim/mlx5/prepared_binding.hpp>
#include <verbatim/mlx5/send_ring.hpp>

namespace verbatim::mlx5 {

// What does not depend on the shape.
class PrebuiltRing : public SendRing {
  public:
    // Forgets everything outstanding and starts at block 0, with all slots made again. Call it
    // together with QueuePairHandle::reset() and CompletionQueue::discard().
    void reset() noexcept;
    // False for good once a named region was released.
    bool valid() const noexcept;

  protected:
    // Throws Error as SendQueue, WqeImage and PreparedBinding do, and Error(invalid_argument) where
    // the queue has less than one slot.
    PrebuiltRing(const QueuePairView& view, const WorkRequest& request, NamedRegions regions,
                 const volatile std::uint64_t* invalidation_epoch);
    ~PrebuiltRing() = default;

    // False: maybe a named region is not there any more.
    [[gnu::always_inline]] bool regions_unchanged() const noexcept {
        return __atomic_load_n(epoch_, __ATOMIC_RELAXED) == valid_at_;
    }
    // Whether they all are. Cold.
    bool look_at_regions() noexcept;

    std::uint64_t first_word_;  // of the request's control segment in slot 0
    std::uint64_t flags_word_;

  private:
    static constexpr std::uint64_t kNoEpoch = 0;
    void fill() noexcept;

    std::vector<std::uint64_t> image_;
    std::vector<std::shared_ptr<const std::atomic<bool>>> regions_;
    const volatile std::uint64_t* epoch_ = &kNoEpoch;
    std::uint64_t valid_at_ = 0;
};

// Example: PrebuiltSendQueue<Opcode::read, Gather<10>> reads(view, request, regions, epoch);
//          reads.post(id, remote_address, [&](std::uint32_t i) { return address_of(i); });
template <Opcode kOpcode, class Payload>
class PrebuiltSendQueue : public PrebuiltRing {
    using Shape = FixedShape<kOpcode, Payload>;
    static constexpr std::uint32_t kSlotBlocks = std::bit_ceil(Shape::kBlocks);
    static constexpr std::uint32_t kFillers = kSlotBlocks - Shape::kBlocks;
    using Word [[gnu::may_alias]] = std::uint64_t;
    static constexpr std::size_t kFillerBytes = kFillers * kBlockBytes;

  public:
    // `request` says what stays; its spans are read during the call only. `invalidation_epoch`:
    // Device::invalidation_epoch(), needed where regions are named. Throws as PrebuiltRing, and
    // Error(invalid_argument) where the request has another shape.
    PrebuiltSendQueue(const QueuePairView& view, const WorkRequest& request,
                      NamedRegions regions = {},
                      const volatile std::uint64_t* invalidation_epoch = nullptr)
        : PrebuiltRing(view, (Shape::require(request, view), request), regions,
                       invalidation_epoch) {}

    // Posts with this remote address and payload (see Inline, Gather). Errors: invalid_prepared (a
    // region is gone), would_block.
    template <class Variable>
    [[gnu::always_inline]] Errc post(
        std::uint64_t id, std::uint64_t remote_address,
        Variable&& payload) noexcept requires Shape::kNamesRemoteMemory {
        return post_made(id, remote_address, payload);
    }
    // A send has no remote address.
    template <class Variable>
    [[gnu::always_inline]] Errc post(std::uint64_t id, Variable&& payload) noexcept
        requires(!Shape::kNamesRemoteMemory) {
        return post_made(id, 0, payload);
    }

    // Posts `count` of them under one doorbell, or none: `next(i)` returns the i-th, a Listed with
    // a payload as above. Their ids are first_id, first_id + 1, ...; only the last one is signaled,
    // if this operation is. Errors: invalid_prepared, would_block, message_too_large (more than the
    // queue has slots).
    template <class Next>
    [[gnu::always_inline]] Errc post_list(std::uint64_t first_id, std::uint32_t count,
                                          Next&& next) noexcept {
        if constexpr (Payload::kElements != 0)
            if (!regions_unchanged() && !look_at_regions()) [[unlikely]]
                return Errc::invalid_prepared;
        const std::uint64_t blocks_asked = std::uint64_t{count} * kSlotBlocks;
        if (blocks_asked > free_blocks()) [[unlikely]]
            return full(blocks_asked);
        if (count == 0) return Errc::ok;
        const std::uint64_t unsignaled = flags_word_ & ~flags_word(kCompletionAlways, 0);
        std::uint32_t index = next_;
        std::uint64_t first = 0;
        std::byte* wqe = nullptr;
        for (std::uint32_t i = 0; i != count; ++i, index += kSlotBlocks) {
            const std::size_t slot = index & mask_;
            wqe = ring_ + slot * kBlockBytes + kFillerBytes;
            const auto number = __builtin_bswap16(static_cast<std::uint16_t>(index));
            first = begin_slot(wqe, std::uint32_t{number} << 8, unsignaled);
            const auto item = next(i);
            Shape::patch(wqe, item.remote_address, item.payload);
            ids_[slot + kFillers] = first_id + i;
        }
        store(wqe + sizeof first, flags_word_);  // the last one speaks for all
        next_ = index;
        ring_doorbell(bell_, next_, DoorbellWordOnly{{first}});
        return Errc::ok;
    }

    void set_signaled(bool on) noexcept {
        const std::uint64_t bit = flags_word(kCompletionAlways, 0);
        flags_word_ = on ? flags_word_ | bit : flags_word_ & ~bit;
    }

  private:
    static void store(std::byte* to, std::uint64_t value) noexcept {
        std::memcpy(to, &value, sizeof value);
    }
    // Writes what every request of a slot changes, in the fillers before it too; its first word.
    // `bits`: the number of the slot's first block, where control segments have it.
    [[gnu::always_inline]] std::uint64_t begin_slot(std::byte* wqe, std::uint32_t bits,
                                                    std::uint64_t flags) const noexcept {
        // A slot's first index has zeros where the numbers of its blocks go.
        for (std::uint32_t i = 0; i < kFillers; ++i) {
            const std::uint32_t word = bits | index_bits(i);  // and opcode 0, a no-op
            std::memcpy(wqe - kFillerBytes + i * kBlockBytes, &word, sizeof word);
        }
        const std::uint64_t first = first_word_ | bits;
        store(wqe, first);
        // Atomic only so that compilers do not collect both words in one register, which takes
        // longer than to store them.
        __atomic_store_n(reinterpret_cast<Word*>(wqe + sizeof first), flags, __ATOMIC_RELAXED);
        return first;
    }
    template <class Variable>
    [[gnu::always_inline]] Errc post_made(std::uint64_t id, std::uint64_t remote_address,
                                          Variable&& payload) noexcept {
        if constexpr (Payload::kElements != 0)
            if (!regions_unchanged()) [[unlikely]]
                return post_after_look<std::decay_t<Variable>>(id, remote_address, payload);
        return post_now(id, remote_address, payload);
    }
    // By value, and a call that ends the post: the caller's variables stay in registers.
    template <class Variable>
    [[gnu::noinline, gnu::cold]] Errc post_after_look(std::uint64_t id,
                                                      std::uint64_t remote_address,
                                                      Variable payload) noexcept {
        if (!look_at_regions()) return Errc::invalid_prepared;
        return post_now(id, remote_address, payload);
    }
    template <class Variable>
    [[gnu::always_inline]] Errc post_now(std::uint64_t id, std::uint64_t remote_address,
                                         Variable&& payload) noexcept {
        const std::uint32_t index = next_;
        if (index == stop_) [[unlikely]]  // both count whole slots
            return Errc::would_block;
        const std::size_t slot = index & mask_;
        std::byte* const wqe = ring_ + slot * kBlockBytes + kFillerBytes;
        const std::uint64_t first = begin_slot(wqe, bell_.index_bits(), flags_word_);
        Shape::patch(wqe, remote_address, payload);
        ids_[slot + kFillers] = id;
        next_ = index + kSlotBlocks;
        ring_doorbell(bell_, next_, DoorbellWordOnly{{first}});
        return Errc::ok;
    }
};

}  // namespace verbatim::mlx5

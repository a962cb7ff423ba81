// Send queue: encodes work requests into the ring, rings the doorbell, and keeps exact account of
// what is outstanding. Every accepted request retires once: a signaled one by its completion, an
// unsignaled one by the next completion behind it; in the error state the device flushes each.
// Threads: one at a time, the same that polls the completion queue it is attached to.
// Source: PRM, "Send Queue"; jVerbs §5 for what posting may cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/doorbell.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// A finished WQE of one block in registers, apart from its index.
struct BlockImage {
    std::uint64_t control;  // first word of the control segment, index 0
    std::uint64_t flags;    // second word
    __m128i rest[3];
};

class SendQueue {
  public:
    // `invalidation_epoch`: Device::invalidation_epoch(), where prepared operations that name
    // memory regions are to be used. Throws Error(invalid_argument) on a view that cannot work.
    explicit SendQueue(const QueuePairView& view,
                       const volatile std::uint64_t* invalidation_epoch = nullptr);
    // Completion queues and prepared operations point here.
    SendQueue(const SendQueue&) = delete;
    SendQueue& operator=(const SendQueue&) = delete;

    // Posts one request. Errors: would_block (full: poll, then try again), invalid_argument,
    // message_too_large (inline payload, total bytes, or more blocks than the queue has). Nothing
    // is posted on an error.
    Errc post(const WorkRequest& request) noexcept {
        if (const Errc error = check(request, limits_); error != Errc::ok) return error;
        const WqeShape shape = shape_of(request);
        const std::uint32_t blocks = shape.blocks();
        if (blocks > free_blocks()) [[unlikely]]
            return full(blocks);
        const std::uint32_t index = next_;
        const std::uint64_t first_word = place(request, shape);
        ring_doorbell(bell_, next_, DoorbellRing{first_word, ring_, mask_, index, blocks});
        return Errc::ok;
    }

    // Posts all of them under one doorbell, or none. Errors as above, of the first request refused.
    Errc post(std::span<const WorkRequest> requests) noexcept;

    // -- Accounting --
    std::uint32_t blocks() const noexcept { return mask_ + 1; }
    std::uint32_t free_blocks() const noexcept { return limit_ - next_; }
    // Accepted requests that have not retired. Walks them: for tests and telemetry.
    std::uint32_t outstanding() const noexcept;
    std::uint32_t number() const noexcept { return number_; }
    const SendLimits& limits() const noexcept { return limits_; }
    // Moves with every reset().
    std::uint64_t generation() const noexcept { return generation_; }

    // Forgets everything outstanding and starts at block 0. Call it together with
    // QueuePairHandle::reset() and CompletionQueue::discard(); prepared operations of this queue
    // become invalid.
    void reset() noexcept;

    // -- For completion queues --
    // Retires the request whose first block has this counter and all before it; its id, or nothing
    // where no such request is outstanding.
    std::optional<std::uint64_t> retire(std::uint16_t counter) noexcept {
        const std::uint32_t oldest = limit_ - blocks();
        const std::uint32_t ahead = static_cast<std::uint16_t>(counter - oldest);
        const std::uint32_t outstanding = next_ - oldest;
        if (ahead >= outstanding) [[unlikely]]
            return std::nullopt;
        const Slot& slot = slots_[(oldest + ahead) & mask_];
        // A device that names the middle of a WQE finds a stale slot there.
        if (slot.end - oldest - 1 >= outstanding) [[unlikely]]
            return std::nullopt;
        limit_ = slot.end + blocks();
        return slot.id;
    }
    // The ring's block with this counter (of an outstanding request).
    const std::byte* block_at(std::uint32_t counter) const noexcept {
        return ring_ + std::size_t{counter & mask_} * kBlockBytes;
    }

    // -- For prepared operations --
    const volatile std::uint64_t* invalidation_epoch() const noexcept { return epoch_; }
    bool watches_regions() const noexcept { return epoch_ != &kNoEpoch; }

    // Posts a finished WQE of one block, its control segment's index still 0.
    [[gnu::always_inline]] Errc post_block(std::uint64_t id, const BlockImage& image) noexcept {
        const std::uint32_t index = next_;
        if (index == limit_) [[unlikely]]
            return Errc::would_block;
        const std::uint64_t first_word = image.control | index_bits(index);
        const Block block{{_mm_set_epi64x(static_cast<long long>(image.flags),
                                          static_cast<long long>(first_word)),
                           image.rest[0], image.rest[1], image.rest[2]}};
        const std::size_t slot = index & mask_;
        block.store(ring_ + slot * kBlockBytes);
        slots_[slot] = {id, index + 1};
        next_ = index + 1;
        ring_doorbell(bell_, index + 1, DoorbellBlock{first_word, block});
        return Errc::ok;
    }

    // Puts a finished image of `blocks` blocks into the ring without ringing; there must be room.
    // Returns its first word.
    std::uint64_t place_image(std::uint64_t id, const std::uint64_t* image,
                              std::uint32_t blocks) noexcept;
    // Rings for all that was placed since the last doorbell; `first_word` is of the last WQE.
    void ring(std::uint64_t first_word) noexcept {
        ring_doorbell(bell_, next_, DoorbellWord{first_word});
    }
    // Rings for the one WQE of `blocks` blocks placed last.
    void ring(std::uint64_t first_word, std::uint32_t blocks) noexcept {
        ring_doorbell(bell_, next_, DoorbellRing{first_word, ring_, mask_, next_ - blocks, blocks});
    }
    // Why `blocks` more cannot be posted now.
    Errc full(std::uint64_t blocks) const noexcept {
        return blocks > this->blocks() ? Errc::message_too_large : Errc::would_block;
    }

  private:
    struct Slot {
        std::uint64_t id = 0;
        std::uint32_t end = 0;  // counter behind the WQE that starts here
    };

    static constexpr std::uint64_t index_bits(std::uint32_t index) noexcept {
        return be32((index & 0xffff) << 8).raw();
    }

    std::uint64_t place(const WorkRequest& request, const WqeShape& shape) noexcept {
        const std::size_t slot = next_ & mask_;
        std::byte* end = ring_ + std::size_t{blocks()} * kBlockBytes;
        const std::uint64_t first_word = encode(request, shape, {number_, next_},
                                                UnitCursor(ring_ + slot * kBlockBytes, ring_, end));
        const std::uint32_t behind = next_ + shape.blocks();
        slots_[slot] = {request.id, behind};
        next_ = behind;
        return first_word;
    }

    static const volatile std::uint64_t kNoEpoch;

    // Counters run through all 32 bits; the device sees the low 16. Outstanding blocks lie in
    // [limit_ - blocks(), next_).
    std::byte* ring_;
    std::unique_ptr<Slot[]> slots_;  // by first block, as many as blocks
    std::uint32_t next_ = 0;
    std::uint32_t limit_;
    std::uint32_t mask_;
    std::uint32_t number_;
    std::uint64_t generation_ = 0;
    Doorbell bell_;
    SendLimits limits_;
    const volatile std::uint64_t* epoch_;
};

}  // namespace verbatim::mlx5

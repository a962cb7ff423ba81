// Send queue: encodes work requests into the ring, rings the doorbell, and keeps exact account of
// what is outstanding. Every accepted request retires once: a signaled one by its completion, an
// unsignaled one by the next completion behind it; in the error state the device flushes each.
// Threads: one at a time, the same that polls the completion queue it is attached to.
// Source: PRM, "Send Queue"; jVerbs §5 for what posting may cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/doorbell.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>
#include <verbatim/mlx5/validity.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

class SendQueue {
  public:
    // `invalidation_epoch`: Device::invalidation_epoch(), where prepared operations that name
    // memory regions are to be used. Throws Error(invalid_argument) on a view that cannot work.
    explicit SendQueue(const QueuePairView& view,
                       const volatile std::uint64_t* invalidation_epoch = nullptr);
    // Completion queues and prepared operations point here.
    SendQueue(const SendQueue&) = delete;
    SendQueue& operator=(const SendQueue&) = delete;
    ~SendQueue() { prepared_.revoke_all(); }

    // Posts one request. Errors: would_block (full: poll, then try again), invalid_argument,
    // message_too_large (inline payload, total bytes, or more blocks than the queue has),
    // unsupported (masked atomics, where the device has none). Nothing is posted on an error.
    Errc post(const WorkRequest& request) noexcept {
        if (is_special(request.opcode) || pending_fence_ != 0) [[unlikely]]
            return post_special(request);
        if (const Errc error = check_plain(request, limits_); error != Errc::ok) [[unlikely]]
            return travels_masked(request) ? post_special(request) : error;
        const WqeShape shape = plain_shape_of(request);
        const std::uint32_t blocks = shape.blocks();
        if (blocks > free_blocks()) [[unlikely]]
            return full(blocks);
        const std::uint32_t index = next_;
        const std::uint64_t first_word =
            encode_plain(request, shape, {number_, index}, cursor_at(index));
        ids_[index & mask_] = request.id;
        next_ = index + blocks;
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
    // Counts resets.
    std::uint64_t generation() const noexcept { return generation_; }

    // Forgets everything outstanding and starts at block 0. Call it together with
    // QueuePairHandle::reset() and CompletionQueue::discard(); prepared operations of this queue
    // become invalid.
    void reset() noexcept;

    // -- For completion queues --
    // Retires the request whose first block has this counter and all before it; its id, or nothing
    // where no such request is outstanding. The WQE itself says where it starts and how long it is.
    std::optional<std::uint64_t> retire(std::uint16_t counter) noexcept {
        const std::uint32_t oldest = limit_ - blocks();
        const std::uint32_t ahead = static_cast<std::uint16_t>(counter - oldest);
        const std::uint32_t outstanding = next_ - oldest;
        if (ahead >= outstanding) [[unlikely]]
            return std::nullopt;
        const std::uint32_t behind = ahead + blocks_at(counter);
        if (behind == ahead || behind > outstanding) [[unlikely]]
            return std::nullopt;
        limit_ += behind;
        if (pending_fence_ == 0) [[likely]]
            stop_ = limit_;
        return ids_[counter & mask_];
    }
    // What the update of a memory key that starts at this counter was posted as.
    Opcode key_update_at(std::uint16_t counter) const noexcept;
    // How many bytes the atomic operation that starts there returned.
    std::uint32_t atomic_bytes_at(std::uint16_t counter) const noexcept;
    // The ring's block with this counter (of an outstanding request).
    const std::byte* block_at(std::uint32_t counter) const noexcept {
        return ring_ + std::size_t{counter & mask_} * kBlockBytes;
    }

    // -- For prepared operations --
    // A queue without blocks, which is always full: what a revoked operation posts to.
    static SendQueue& closed() noexcept { return closed_; }
    const volatile std::uint64_t* invalidation_epoch() const noexcept { return epoch_; }
    ValidityList& prepared() noexcept { return prepared_; }

    // Posts a finished WQE of one block, its control segment's index still 0.
    [[gnu::always_inline]] Errc post_block(std::uint64_t id, Block block) noexcept {
        const std::uint32_t index = next_;
        if (index == stop_) [[unlikely]]
            return post_block_at_stop(id, block);
        block.quarter[0] = _mm_or_si128(block.quarter[0], next_index_bits());
        const std::size_t slot = index & mask_;
        ids_[slot] = id;
        block.store(ring_ + slot * kBlockBytes);
        next_ = index + 1;
        ring_doorbell(bell_, index + 1, DoorbellBlock{block});
        return Errc::ok;
    }

    // What PreparedWrite8 knows of its writes.
    struct Write8Image {
        __m128i control;  // index 0
        __m128i header;   // in its first 4 bytes
        std::uint64_t remote_key;
    };
    // See PreparedWrite8::post_list().
    template <class Next>
    [[gnu::always_inline]] Errc post_writes8(const Write8Image& image, std::uint64_t first_id,
                                             std::uint32_t count, Next&& next) noexcept {
        if (count > free_blocks()) [[unlikely]]
            return full(count);
        if (count == 0) return Errc::ok;
        // Up to the end of the ring there is nothing to wrap.
        const std::uint32_t to_end = blocks() - (next_ & mask_);
        const std::uint32_t before = std::min(count, to_end);
        std::uint64_t word = place_writes8(image, {first_id, next_, before}, next);
        if (before != count)
            word = place_writes8(image, {first_id + before, next_ + before, count - before},
                                 [&](std::uint32_t i) { return next(before + i); });
        if (pending_fence_ != 0) [[unlikely]]
            fence_block_at(next_);
        next_ += count;
        // The last one speaks for all.
        store_at(ring_ + std::size_t{(next_ - 1) & mask_} * kBlockBytes + sizeof word,
                 _mm_cvtsi128_si64(_mm_srli_si128(image.control, 8)));
        set_stop();
        ring(word);
        return Errc::ok;
    }

    // Posts a finished image of `blocks` blocks, index 0. Errors: would_block, message_too_large.
    Errc post_image(std::uint64_t id, const std::uint64_t* image, std::uint32_t blocks) noexcept {
        if (blocks > free_blocks()) [[unlikely]]
            return full(blocks);
        const std::uint64_t first_word = place_image(id, image, blocks);
        ring_doorbell(bell_, next_, DoorbellRing{first_word, ring_, mask_, next_ - blocks, blocks});
        return Errc::ok;
    }
    // Puts an image into the ring without ringing; there must be room. Returns its first word.
    std::uint64_t place_image(std::uint64_t id, const std::uint64_t* image,
                              std::uint32_t blocks) noexcept;
    // Rings for all that was placed since the last doorbell; `first_word` is of the last WQE.
    void ring(std::uint64_t first_word) noexcept {
        ring_doorbell(bell_, next_, DoorbellWord{first_word});
    }

  private:
    constexpr SendQueue() noexcept = default;

    // Blocks of the WQE that starts at this block; 0 where none starts there.
    std::uint32_t blocks_at(std::uint16_t counter) const noexcept {
        ControlSegment control;
        std::memcpy(&control, block_at(counter), sizeof control);
        const bool starts_here = index_of(control) == counter && number_of(control) == number_;
        return starts_here ? blocks_for_units(units_of(control)) : 0;
    }

    // next_, where a control segment has its index. From the doorbell record, whose bytes need only
    // a shift: [0 0 hi lo] there, [opcode-modifier hi lo opcode] here.
    __m128i next_index_bits() const noexcept {
        return _mm_srli_epi32(_mm_cvtsi32_si128(static_cast<int>(bell_.record_raw)), 8);
    }
    static constexpr std::uint64_t index_bits(std::uint32_t index) noexcept {
        return be32((index & 0xffff) << 8).raw();
    }

    struct Part {
        std::uint64_t first_id;
        std::uint32_t index;
        std::uint32_t count;
    };
    // Blocks that do not wrap; the first word of the last one.
    template <class Next>
    [[gnu::always_inline]] std::uint64_t place_writes8(const Write8Image& image, const Part& part,
                                                       Next&& next) noexcept {
        const auto control = static_cast<std::uint64_t>(_mm_cvtsi128_si64(image.control));
        constexpr std::uint64_t kFlags = 0;  // unsignaled
        const auto header = static_cast<std::uint32_t>(_mm_cvtsi128_si32(image.header));
        std::byte* at = ring_ + std::size_t{part.index & mask_} * kBlockBytes;
        std::uint64_t* ids = &ids_[part.index & mask_];
        std::uint64_t first = 0;
#pragma GCC unroll 4
        for (std::uint32_t i = 0; i != part.count; ++i, at += kBlockBytes) {
            const auto write = next(i);
            const auto index = static_cast<std::uint16_t>(part.index + i);
            first = control | std::uint32_t{__builtin_bswap16(index)} << 8;
            store_at(at, first);
            store_at(at + 8, kFlags);
            store_at(at + 16, be64(write.remote_address).raw());
            store_at(at + 24, image.remote_key);
            store_at(at + 32, header);
            store_at(at + 36, write.payload);
            ids[i] = part.first_id + i;
        }
        return first;
    }
    template <class Value>
    static void store_at(std::byte* to, Value value) noexcept {
        std::memcpy(to, &value, sizeof value);
    }
    // Gives the WQE that starts at this counter the pending fence, unless it has one. Cold.
    void fence_block_at(std::uint32_t index) noexcept;

    // At stop_ the queue is full, or the next WQE has to wait for a key update: then it gets its
    // fence. Cold.
    Errc post_block_at_stop(std::uint64_t id, Block block) noexcept;
    // Special requests, atomics of 4 bytes, and what comes behind a key update. Cold.
    Errc post_special(const WorkRequest& request) noexcept;
    // The fence of the next WQE, which takes it; `updates`: and is a key update itself.
    std::uint8_t take_fence(bool updates) noexcept {
        const std::uint8_t fence = pending_fence_;
        pending_fence_ = updates ? kSmallFence : 0;
        return fence;
    }
    // After next_ or pending_fence_ moved.
    void set_stop() noexcept { stop_ = pending_fence_ == 0 ? limit_ : next_; }

    // Why `blocks` more cannot be posted now.
    Errc full(std::uint64_t blocks) const noexcept {
        return blocks > this->blocks() ? Errc::message_too_large : Errc::would_block;
    }

    UnitCursor cursor_at(std::uint32_t index) const noexcept {
        return {ring_ + std::size_t{index & mask_} * kBlockBytes, ring_,
                ring_ + std::size_t{blocks()} * kBlockBytes};
    }
    std::uint64_t place(const WorkRequest& request, const WqeShape& shape) noexcept {
        const std::uint8_t fence = take_fence(is_key_update(request.opcode));
        const std::uint64_t first_word =
            encode(request, shape, {number_, next_, fence}, cursor_at(next_));
        ids_[next_ & mask_] = request.id;
        next_ += shape.blocks();
        set_stop();
        return first_word;
    }

    // Counters run through all 32 bits; the device sees the low 16. Outstanding blocks lie in
    // [limit_ - blocks(), next_).
    static SendQueue closed_;

    std::byte* ring_ = nullptr;
    std::unique_ptr<std::uint64_t[]> ids_;  // by first block, as many as blocks
    std::uint32_t next_ = 0;
    std::uint32_t limit_ = 0;
    std::uint32_t stop_ = 0;  // limit_; or next_ while the next WQE must be fenced
    std::uint32_t mask_ = 0;
    std::uint32_t number_ = 0;
    std::uint8_t pending_fence_ = 0;  // kSmallFence behind a key update
    std::uint64_t generation_ = 0;
    Doorbell bell_;
    SendLimits limits_;
    const volatile std::uint64_t* epoch_ = nullptr;  // null: not known
    ValidityList prepared_;
};

}  // namespace verbatim::mlx5

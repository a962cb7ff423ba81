// Send queue: encodes work requests into the ring and rings the doorbell. Threads: one at a time,
// the same that polls the completion queue it is attached to. Source: PRM, "Send Queue"; jVerbs §5
// for what posting may cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/doorbell.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>
#include <verbatim/mlx5/send_ring.hpp>
#include <verbatim/mlx5/validity.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

class SendQueue : public SendRing {
  public:
    // `invalidation_epoch`: Device::invalidation_epoch(), where prepared operations that name
    // memory regions are to be used. Throws Error(invalid_argument) on a view that cannot work.
    explicit SendQueue(const QueuePairView& view,
                       const volatile std::uint64_t* invalidation_epoch = nullptr);
    ~SendQueue() { prepared_.revoke_all(); }

    // Posts one request. Errors: would_block (full: poll, then try again), invalid_argument,
    // message_too_large (inline payload, total bytes, or more blocks than the queue has),
    // unsupported (masked atomics, where the device has none). Nothing is posted on an error.
    Errc post(const WorkRequest& request) noexcept {
        if (is_special(request.opcode) || pending_fence_ != 0 || unlike_) [[unlikely]]
            return post_carefully(request);
        if (const Errc error = check_plain(request, limits_); error != Errc::ok) [[unlikely]]
            return travels_masked(request) ? post_carefully(request) : error;
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

    // Forgets everything outstanding and starts at block 0. Call it together with
    // QueuePairHandle::reset() and CompletionQueue::discard(); prepared operations of this queue
    // become invalid.
    void reset() noexcept;

    // -- For prepared operations --
    // A queue without blocks, which is always full: what a revoked operation posts to.
    static SendQueue& closed() noexcept { return closed_; }
    const volatile std::uint64_t* invalidation_epoch() const noexcept { return epoch_; }
    ValidityList& prepared() noexcept { return prepared_; }

    // Whether post_units() can take a WQE of so many blocks now: there is room before the ring's
    // end, and nothing that it must wait for. Otherwise post_image() finds out what to do.
    template <std::uint32_t kBlocks>
    [[gnu::always_inline]] bool takes_units() const noexcept {
        if constexpr (kBlocks == 1) return next_ != stop_;
        return stop_ - next_ >= kBlocks && (next_ & mask_) + (kBlocks - 1) <= mask_;
    }
    // Posts a WQE whose index is still 0; takes_units() was true.
    template <std::size_t kUnits>
    [[gnu::always_inline]] void post_units(std::uint64_t id, Units<kUnits> wqe) noexcept {
        const std::uint32_t index = next_;
        const std::size_t slot = index & mask_;
        wqe.set_index(bell_.index_bytes());
        ids_[slot] = id;
        wqe.store(ring_ + slot * kBlockBytes);
        next_ = index + Units<kUnits>::kBlocks;
        ring_doorbell(bell_, next_, DoorbellUnits<kUnits>{wqe});
    }
    // Posts a finished WQE of one block that is not of a fixed shape.
    Errc post_block(std::uint64_t id, Block block) noexcept {
        const std::uint32_t index = next_;
        if (index == stop_) [[unlikely]] {
            alignas(kBlockBytes) std::uint64_t image[kBlockBytes / sizeof(std::uint64_t)];
            block.store(reinterpret_cast<std::byte*>(image));
            return post_image(id, image, 1);
        }
        block.quarter[0] =
            _mm_or_si128(block.quarter[0], _mm_cvtsi32_si128(static_cast<int>(bell_.index_bits())));
        ids_[index & mask_] = id;
        block.store(ring_ + std::size_t{index & mask_} * kBlockBytes);
        next_ = index + 1;
        ring_doorbell(bell_, next_, DoorbellBlock{block});
        return Errc::ok;
    }

    // What PreparedWrite8 knows of its writes: control (index 0), remote address, inline header.
    using Write8Image = UnitImage<3>;
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
                 image.words[1]);
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

    struct Part {
        std::uint64_t first_id;
        std::uint32_t index;
        std::uint32_t count;
    };
    // Blocks that do not wrap; the first word of the last one.
    template <class Next>
    [[gnu::always_inline]] std::uint64_t place_writes8(const Write8Image& image, const Part& part,
                                                       Next&& next) noexcept {
        const std::uint64_t control = image.words[0], remote_key = image.words[3];
        constexpr std::uint64_t kFlags = 0;  // unsignaled
        const auto header = static_cast<std::uint32_t>(image.words[4]);
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
            store_at(at + 24, remote_key);
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

    // Special requests, atomics of 4 bytes, what comes behind a key update, and all that goes over
    // other transports than reliable connections. Cold.
    Errc post_carefully(const WorkRequest& request) noexcept;
    // The fence of the next WQE, which takes it; `updates`: and is a key update itself.
    std::uint8_t take_fence(bool updates) noexcept {
        const std::uint8_t fence = pending_fence_;
        pending_fence_ = updates ? kSmallFence : 0;
        return fence;
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

    static SendQueue closed_;

    const volatile std::uint64_t* epoch_ = nullptr;  // null: not known
    ValidityList prepared_;
};

}  // namespace verbatim::mlx5

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

// Requests of one shape and consecutive ids that are posted together.
struct AlikeRequests {
    std::uint64_t first_id;
    std::uint32_t count;
    std::uint64_t control, last_flags;  // the words of the control segment; index 0
};

class SendQueue : public SendRing {
  public:
    // `invalidation_epoch`: Device::invalidation_epoch(), where prepared operations that name
    // memory regions are to be used. Throws Error(invalid_argument) on a view that cannot work.
    explicit SendQueue(const QueuePairView& view,
                       const volatile std::uint64_t* invalidation_epoch = nullptr);
    ~SendQueue() { prepared_.revoke_all(); }

    // Posts one request. Errors: would_block (full: poll, then try again), invalid_argument,
    // message_too_large (inline payload, total bytes, or more blocks than the queue has),
    // unsupported (atomics, where the device has none such). Nothing is posted on an error. What
    // an atomic returned is in host byte order once a poll has taken its completion, or that of a
    // later request.
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
        if (blocks != 1) single_blocks_ = false;
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
        if constexpr (Units<kUnits>::kBlocks != 1) single_blocks_ = false;
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

    // Posts `count` requests of one shape under one doorbell, or none; only the last one is
    // signaled, if `last_flags` (the second word of its control segment) says so. `place(at, first,
    // i)` writes the i-th but for that last word: `first` is the first word of its control segment,
    // index included. See PreparedFixed::post_list().
    template <std::uint32_t kBlocks, class Place>
    [[gnu::always_inline]] Errc post_alike(const AlikeRequests& asked, Place&& place) noexcept {
        const std::uint64_t blocks_asked = std::uint64_t{asked.count} * kBlocks;
        if (blocks_asked > free_blocks()) [[unlikely]]
            return full(blocks_asked);
        if (asked.count == 0) return Errc::ok;
        const std::uint32_t start = next_;
        std::uint64_t word = 0;
        for (std::uint32_t done = 0; done != asked.count;) {
            // Up to the end of the ring there is nothing to wrap.
            const std::uint32_t to_end = (blocks() - (next_ & mask_)) / kBlocks;
            const std::uint32_t run = std::min(asked.count - done, to_end);
            if constexpr (kBlocks != 1)
                if (run == 0) [[unlikely]] {
                    word = place_over_end<kBlocks>(asked, done++, place);
                    continue;
                }
            word = place_run<kBlocks>(asked, {done, done + run}, place);
            next_ += run * kBlocks;
            done += run;
            if (pending_fence_ != 0) [[unlikely]]
                fence_block_at(start);
        }
        if constexpr (kBlocks != 1) single_blocks_ = false;
        // The last one speaks for all.
        store_at(ring_ + std::size_t{(next_ - kBlocks) & mask_} * kBlockBytes + sizeof word,
                 asked.last_flags);
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

    struct Run {
        std::uint32_t first, end;
    };
    // Requests that do not wrap; the first word of the last one.
    template <std::uint32_t kBlocks, class Place>
    [[gnu::always_inline]] std::uint64_t place_run(const AlikeRequests& asked, Run run,
                                                   Place& place) noexcept {
        const std::uint64_t control = asked.control, first_id = asked.first_id;
        std::byte* at = ring_ + std::size_t{next_ & mask_} * kBlockBytes;
        std::uint64_t* id = &ids_[next_ & mask_];
        // No carry within a run: the ring's end is also the end of 16 bits, or before.
        std::uint32_t index = (next_ & 0xffff) << 8;
        std::uint64_t first = 0;
#pragma GCC unroll 4
        for (std::uint32_t i = run.first; i != run.end; ++i) {
            first = control | be32(index).raw();
            place(at, first, i);
            // Atomic only so that compilers do not make a loop of its own of it.
            __atomic_store_n(id, first_id + i, __ATOMIC_RELAXED);
            at += kBlocks * kBlockBytes;
            id += kBlocks;
            index += kBlocks << 8;
        }
        return first;
    }
    // One that does wrap.
    template <std::uint32_t kBlocks, class Place>
    [[gnu::noinline]] std::uint64_t place_over_end(const AlikeRequests& asked, std::uint32_t i,
                                                   Place& place) noexcept {
        alignas(kBlockBytes)
            std::uint64_t image[kBlocks * kBlockBytes / sizeof(std::uint64_t)] = {};
        place(reinterpret_cast<std::byte*>(image), asked.control, i);
        return place_image(asked.first_id + i, image, kBlocks);
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
        expect_result_of(request);
        const std::uint8_t fence = take_fence(is_key_update(request.opcode));
        const std::uint64_t first_word =
            encode(request, shape, {number_, next_, fence}, cursor_at(next_));
        ids_[next_ & mask_] = request.id;
        next_ += shape.blocks();
        if (shape.blocks() != 1) single_blocks_ = false;
        set_stop();
        return first_word;
    }

    static SendQueue closed_;

    const volatile std::uint64_t* epoch_ = nullptr;  // null: not known
    ValidityList prepared_;
};

}  // namespace verbatim::mlx5

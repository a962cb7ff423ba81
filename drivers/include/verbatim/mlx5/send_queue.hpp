// A send queue encodes work requests into the ring and rings the doorbell; prepared operations
// (prepared.hpp) post through it, too. Threads: one at a time, the same that polls the completion
// queue it is attached to. Source: PRM, "Send Queue"; jVerbs §5 for what posting may cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/doorbell.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/send_ring.hpp>
#include <verbatim/mlx5/validity.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// Requests of one shape and consecutive ids that are posted together.
struct AlikeRequests {
    std::uint64_t first_id;
    std::uint32_t count;
    __m128i control;          // segment of each, unsignaled, index 0
    std::uint8_t last_flags;  // kCompletionAlways where the last one is signaled
};

class SendQueue : public SendRing {
  public:
    // `invalidation_epoch`: Device::invalidation_epoch(), where prepared operations that name
    // memory regions are to be used. Throws Error(invalid_argument) on a view that cannot work.
    explicit SendQueue(const QueuePairView& view,
                       const volatile std::uint64_t* invalidation_epoch = nullptr);
    ~SendQueue() { prepared_.revoke_all(); }

    // Posts one request. Errors: would_block (full: poll, then try again), invalid_argument. The
    // limits of message_too_large are inline payload, total bytes, and the queue's blocks. Atomics
    // that the device lacks are unsupported. Nothing is posted on an error. The result of an atomic
    // is in host byte order once a poll has taken its completion, or that of a later request.
    Errc post(const WorkRequest& request) noexcept {
        static_assert(Opcode::compare_swap < Opcode::fetch_add &&
                      Opcode::fetch_add < Opcode::masked_compare_swap);
        if (request.opcode >= Opcode::compare_swap) [[unlikely]]  // atomics and special ones
            return post_carefully(request);
        if (const Errc error = check_plain(request, limits_); error != Errc::ok) [[unlikely]]
            return error;
        const WqeShape shape = plain_shape_of(request);
        const std::uint32_t blocks = shape.blocks();
        if (!window_.admits(blocks) && !open_window(blocks)) [[unlikely]]
            return post_carefully(request);
        const PostWindow::Place at = window_.place();
        const std::uint32_t index = window_.next();
        const std::uint64_t first_word =
            encode_plain(request, shape, {number_, index}, UnitWriter(at.block));
        *at.id = request.id;
        if (blocks != 1) single_blocks_ = false;
        ring_doorbell(bell_, window_.take(at, blocks),
                      DoorbellRing{first_word, ring_, mask_, index, blocks});
        return Errc::ok;
    }

    // Posts all of them under one doorbell, or none. Errors as above, of the first request refused.
    Errc post(std::span<const WorkRequest> requests) noexcept;

    // Forgets everything outstanding and starts at block 0. Call it together with
    // QueuePairHandle::reset() and CompletionQueue::discard(); prepared operations of this queue
    // become invalid.
    void reset() noexcept;

    // -- For prepared operations --
    // A queue without blocks, which is always full. Revoked operations post to it.
    static SendQueue& closed() noexcept { return closed_; }
    const volatile std::uint64_t* invalidation_epoch() const noexcept { return epoch_; }
    // From now on requests of so many blocks will be posted.
    void add(Validity& operation, std::uint32_t blocks) noexcept;

    // True if post_units() can take a WQE of so many blocks now.
    template <std::uint32_t kBlocks>
    [[gnu::always_inline]] bool takes_units() const noexcept {
        return window_.admits<kBlocks>();
    }
    // The way in which it can, after further tests. Cold.
    enum class Way : std::uint8_t {
        admitted,
        carrying,  // as the window cannot: the counter's low byte carries
        by_image   // post_image() posts it, or returns the reason
    };
    Way find_way(std::uint32_t blocks) noexcept;
    // Posts a WQE whose index is still 0; takes_units() was true. Not `admitted`: it is `carrying`.
    template <std::size_t kUnits>
    [[gnu::always_inline]] void post_units(std::uint64_t id, Units<kUnits> wqe,
                                           bool admitted = true) noexcept {
        constexpr std::uint32_t kBlocks = Units<kUnits>::kBlocks;
        const PostWindow::Place at = window_.place();
        wqe.set_index(window_.index_bytes());
        *at.id = id;
        wqe.store(at.block);
        const std::uint32_t record = admitted ? window_.take(at, kBlocks) : step_over(kBlocks);
        ring_doorbell(bell_, record, DoorbellUnits<kUnits>{wqe});
    }
    // Posts a finished image of `blocks` blocks, index 0. Errors: would_block, message_too_large.
    Errc post_image(std::uint64_t id, const std::uint64_t* image, std::uint32_t blocks) noexcept;

    // Posts `count` requests of one shape under one doorbell, or none; only the last one is
    // signaled, if it is to be. `place(at, control, i)` writes the i-th with this control segment.
    // See Prepared::post_list().
    template <std::uint32_t kBlocks, class Place>
    [[gnu::always_inline]] Errc post_alike(const AlikeRequests& asked, Place&& place) noexcept {
        if (const Errc error = admit(std::uint64_t{asked.count} * kBlocks); error != Errc::ok)
            [[unlikely]]
            return error;
        if (asked.count == 0) return Errc::ok;
        Last last{};
        for (std::uint32_t done = 0; done != asked.count;) {
            if (!window_.admits<kBlocks>()) [[unlikely]]
                if (!open_window(kBlocks)) {
                    alignas(kBlockBytes) std::uint64_t image[kBlocks * kWordsPerBlock] = {};
                    place(reinterpret_cast<std::byte*>(image), asked.control, done);
                    last = place_image(asked.first_id + done++, image, kBlocks);
                    continue;
                }
            const std::uint32_t end =
                done + std::min(asked.count - done, window_.blocks() / kBlocks);
            last = place_run<kBlocks>(asked, {done, end}, place);
            done = end;
        }
        // Its other flags stay: it may be the one that waits for a key update.
        last.wqe[offsetof(ControlSegment, fence_completion_event)] |= std::byte{asked.last_flags};
        ring(last.first_word);
        return Errc::ok;
    }

  private:
    constexpr SendQueue() noexcept = default;

    static constexpr std::size_t kWordsPerBlock = kBlockBytes / sizeof(std::uint64_t);
    struct Run {
        std::uint32_t first, end;
    };
    // Of the request placed last.
    struct Last {
        std::uint64_t first_word;
        std::byte* wqe;
    };
    // Requests that the window admits.
    template <std::uint32_t kBlocks, class Place>
    [[gnu::always_inline]] Last place_run(const AlikeRequests& asked, Run run,
                                          Place& place) noexcept {
        // Of the index's low byte, which does not carry here.
        const __m128i next = _mm_cvtsi32_si128(kBlocks << 16);
        const PostWindow::Place start = window_.place();
        std::byte* at = start.block;
        std::uint64_t* id = start.id;
        __m128i control = _mm_or_si128(asked.control, window_.index_unit());
#pragma GCC unroll 4
        for (std::uint32_t i = run.first; i != run.end; ++i) {
            place(at, control, i);
            // Atomic only so that compilers do not make a loop of its own of it.
            __atomic_store_n(id, asked.first_id + i, __ATOMIC_RELAXED);
            at += kBlocks * kBlockBytes;
            id += kBlocks;
            control = _mm_add_epi32(control, next);
        }
        window_.take(start, (run.end - run.first) * kBlocks);
        return {first_word_of(_mm_sub_epi32(control, next)), at - kBlocks * kBlockBytes};
    }

    // Puts an image into the ring without ringing; there must be room.
    Last place_image(std::uint64_t id, const std::uint64_t* image, std::uint32_t blocks) noexcept;
    // The same of a checked request.
    std::uint64_t place(const WorkRequest& request, const WqeShape& shape) noexcept;
    // The next request is there and takes these blocks.
    void settle(std::uint64_t id, std::uint32_t blocks) noexcept {
        *window_.place().id = id;
        if (blocks != 1) single_blocks_ = false;
        step_over(blocks);
    }
    // Posts any request, in any state of the queue. Cold.
    Errc post_carefully(const WorkRequest& request) noexcept;
    // Rings for all that was placed since the last doorbell; `first_word` is of the last WQE.
    void ring(std::uint64_t first_word) noexcept {
        ring_doorbell(bell_, window_.record(), DoorbellWord{first_word});
    }
    // The fence of the next WQE, which takes it.
    std::uint8_t take_fence() noexcept { return std::exchange(pending_fence_, std::uint8_t{0}); }

    static SendQueue closed_;

    const volatile std::uint64_t* epoch_ = nullptr;  // null: not known
    ValidityList prepared_;
};

}  // namespace verbatim::mlx5

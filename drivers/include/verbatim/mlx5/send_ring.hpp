// A send ring holds the blocks of a send queue and the exact account of its outstanding requests.
// Every accepted request retires once: a signaled one by its completion, an unsignaled one by the
// next completion behind it. In the error state the device flushes each. Posting classes derive
// from it; completion queues know only this much. Threads: one at a time, the same that polls the
// completion queue it is attached to. Source: PRM, "Send Queue".
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/doorbell.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/post_window.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

class SendRing {
  public:
    // Completion queues and prepared operations point here.
    SendRing(const SendRing&) = delete;
    SendRing& operator=(const SendRing&) = delete;

    std::uint32_t blocks() const noexcept { return mask_ + 1; }
    std::uint32_t free_blocks() const noexcept {
        return static_cast<std::uint16_t>(limit_ - window_.next());
    }
    // Accepted requests that have not retired. Walks them: for tests and telemetry.
    std::uint32_t outstanding() const noexcept;
    std::uint32_t number() const noexcept { return number_; }
    const SendLimits& limits() const noexcept { return limits_; }
    // Counts resets.
    std::uint64_t generation() const noexcept { return generation_; }

    // -- For completion queues --
    // Retires the request whose first block has this counter, and all before it. Returns its id, or
    // nothing where no such request is outstanding. The WQE has its start and its length.
    // `in_memory`: its result, if it has one, is in its element; not after a failure, nor where the
    // completion's entry carries it.
    std::optional<std::uint64_t> retire(std::uint16_t counter, bool in_memory = true) noexcept {
        const std::uint32_t ahead = static_cast<std::uint16_t>(counter - oldest());
        const std::uint32_t outstanding = blocks_outstanding();
        if (ahead >= outstanding) [[unlikely]]
            return std::nullopt;
        const std::uint32_t behind = ahead + (single_blocks_ ? 1 : blocks_at(counter));
        if (behind == ahead || behind > outstanding) [[unlikely]]
            return std::nullopt;
        if (converts_results_) [[unlikely]]
            results_to_host_order(oldest(), in_memory ? behind : ahead);
        limit_ += behind;
        return ids_[counter & mask_];
    }
    // The same where single_blocks(); false: no such request is outstanding.
    [[gnu::always_inline]] bool retire_single(be16 counter, std::uint64_t& id) noexcept {
        const std::uint32_t native = counter.native();
        const std::uint32_t ahead = (native - oldest()) & 0xffff;
        if (ahead >= blocks_outstanding()) [[unlikely]]
            return false;
        limit_ += ahead + 1;
        id = ids_[native & mask_];
        return true;
    }
    // True if no request takes more than one block, so that each counter starts one, and none
    // returned a result that retire() must swap.
    bool single_blocks() const noexcept { return single_blocks_; }
    // Completions of one ring in a row, as they are polled: each gives its id, and retire() retires
    // them all. `kSingle`: single_blocks().
    template <bool kSingle>
    class Retirement {
      public:
        explicit Retirement(const SendRing& ring) noexcept
            : ring_(ring.ring_),
              ids_(ring.ids_.get()),
              mask_(ring.mask_),
              last_(ring.window_.next() - 1),
              outstanding_(ring.blocks_outstanding()),
              left_(outstanding_) {}
        // False where no outstanding request behind those taken so far starts at this counter (as
        // entries have it).
        [[gnu::always_inline]] bool take(be16 counter, std::uint64_t& id) noexcept {
            const std::uint32_t native = counter.native();
            const std::uint32_t behind = static_cast<std::uint16_t>(last_ - native);
            const std::size_t slot = native & mask_;
            if (behind >= left_) [[unlikely]]
                return false;
            if constexpr (!kSingle) {
                std::uint16_t index;  // behind the opcode modifier
                std::memcpy(&index, ring_ + slot * kBlockBytes + 1, sizeof index);
                if (index != counter.raw()) [[unlikely]]
                    return false;
            }
            left_ = behind;
            id = ids_[slot];
            return true;
        }
        // Something was taken.
        [[gnu::always_inline]] bool retire(SendRing& ring) const noexcept {
            if constexpr (!kSingle)
                return ring.retire(static_cast<std::uint16_t>(last_ - left_)).has_value();
            ring.limit_ += outstanding_ - left_;
            return true;
        }

      private:
        const std::byte* const ring_;
        const std::uint64_t* const ids_;
        const std::uint32_t mask_;
        const std::uint32_t last_;         // the youngest block's counter
        const std::uint32_t outstanding_;  // blocks
        std::uint32_t left_;               // of those, behind the first of what was taken last
    };
    // Before such a request is posted, or prepared.
    void expect_result_of(const WorkRequest& request) noexcept {
        if (!returns_big_endian(request, limits_)) [[likely]]
            return;
        converts_results_ = true;
        single_blocks_ = false;
    }
    // The opcode with which the key update that starts at this counter was posted.
    Opcode key_update_at(std::uint16_t counter) const noexcept;
    // The number of bytes that the atomic operation that starts there returned.
    std::uint32_t atomic_bytes_at(std::uint16_t counter) const noexcept;
    // The ring's block with this counter (of an outstanding request).
    const std::byte* block_at(std::uint32_t counter) const noexcept {
        return ring_ + std::size_t{counter & mask_} * kBlockBytes;
    }
    // True if the WQE at this counter is a filler before a request, which no caller posted.
    bool is_filler(std::uint16_t counter) const noexcept {
        return (counter & filler_mask_) < fillers_;
    }

  protected:
    constexpr SendRing() noexcept = default;
    // Throws Error(invalid_argument) on a view that cannot work.
    explicit SendRing(const QueuePairView& view);
    ~SendRing() = default;

    // Blocks of the WQE that starts at this block; 0 where none starts there.
    std::uint32_t blocks_at(std::uint16_t counter) const noexcept {
        ControlSegment control;
        std::memcpy(&control, block_at(counter), sizeof control);
        const bool starts_here = index_of(control) == counter && number_of(control) == number_;
        return starts_here ? blocks_for_units(units_of(control)) : 0;
    }

    using Word [[gnu::may_alias]] = std::uint64_t;
    static constexpr std::uint32_t index_bits(std::uint32_t index) noexcept {
        return be32((index & 0xffff) << 8).raw();
    }
    // Of outstanding blocks: the first one's counter, and how many there are.
    std::uint32_t oldest() const noexcept { return limit_ - blocks(); }
    std::uint32_t blocks_outstanding() const noexcept {
        return static_cast<std::uint16_t>(window_.next() - oldest());
    }

    // -- Admission. Each post asks window_.admits(). If not admitted, open_window() may still open
    // the window. Else admit() tests everything; the post then begins with close_window() and ends
    // with step_over(). --
    // Opens the window where nothing forbids it. True if it then admits as many blocks. Cold.
    bool open_window(std::uint32_t blocks) noexcept;
    // Whether there is room. Errors: would_block, message_too_large.
    Errc admit(std::uint64_t blocks) const noexcept {
        if (blocks <= free_blocks()) [[likely]]
            return Errc::ok;
        return blocks > this->blocks() ? Errc::message_too_large : Errc::would_block;
    }
    // Takes the window back to the ring's start, if it ended where that ends.
    void close_window() noexcept { window_.close(window_.next(), whole_ring()); }
    // Takes the next blocks, admitted by the window or not. Returns the new record.
    std::uint32_t step_over(std::uint32_t blocks) noexcept {
        window_.close(window_.next() + blocks, whole_ring());
        if (free_blocks() >= blocks) open_window(blocks);
        return window_.record();
    }
    PostWindow::Ring whole_ring() const noexcept { return {ring_, ids_.get(), mask_}; }

    // Forgets everything outstanding and starts at block 0.
    void restart() noexcept;
    // Swaps the big-endian results of the atomics among these retiring blocks. Cold.
    void results_to_host_order(std::uint32_t first, std::uint32_t blocks) const noexcept;

    // The device sees the low 16 bits of counters. Outstanding blocks lie in [limit_ - blocks(),
    // window_.next()).
    PostWindow window_;
    std::byte* ring_ = nullptr;
    std::unique_ptr<std::uint64_t[]> ids_;  // by first block, as many as blocks
    Doorbell bell_;
    std::uint32_t limit_ = 0;
    std::uint32_t mask_ = 0;
    std::uint32_t number_ = 0;
    std::uint8_t pending_fence_ = 0;  // kSmallFence behind a key update
    bool plain_register_ = false;     // the window's posts need no test of the register
    bool single_blocks_ = true;       // see single_blocks()
    bool converts_results_ = false;   // an atomic was posted whose result arrives in big endian
    SendLimits limits_;
    std::uint64_t generation_ = 0;
    // Of every filler_mask_ + 1 blocks, the first fillers_ hold no-ops.
    std::uint32_t filler_mask_ = 0;
    std::uint32_t fillers_ = 0;
};

}  // namespace verbatim::mlx5

// The device's side of a completion queue. Several queue pairs, in several threads, may write into
// one queue: each claims the next entry with one compare-and-swap and fills it, the ownership bit
// last. A thread that is preempted in between delays the reader, never another writer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>

namespace verbatim::softnic {

// A big-endian word of a doorbell record, which a driver thread writes and this device reads.
inline std::uint32_t read_record(const volatile std::uint32_t* word) noexcept {
    return mlx5::be32::from_raw(__atomic_load_n(word, __ATOMIC_ACQUIRE)).native();
}

class CompletionRing {
  public:
    CompletionRing() = default;
    // The entries must have been initialised with initialize().
    explicit CompletionRing(const mlx5::CompletionQueueView& view) noexcept : view_(view) {}

    // Puts all entries into the device's hands and the counters to 0.
    static void initialize(const mlx5::CompletionQueueView& view) noexcept {
        for (std::uint32_t i = 0; i < view.entries; ++i) {
            mlx5::Cqe empty;
            // Opcode invalid, and the phase that the first pass will flip.
            empty.op_own = mlx5::make_op_own(mlx5::CqeOpcode::invalid, true);
            std::memcpy(entry(view, i), &empty, sizeof empty);
        }
    }

    // Writes one completion; Entry is Cqe or ErrorCqe with everything set but the phase. False: the
    // queue is full, nothing was written, no entry is ever overwritten.
    template <class Entry>
    bool push(const Entry& completion) noexcept {
        std::uint32_t index = produced_.load(std::memory_order_relaxed);
        do {
            if (full(index)) return false;
        } while (!produced_.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
        write(index, completion);
        return true;
    }

    const mlx5::CompletionQueueView& view() const noexcept { return view_; }
    // From now on completions say when they were written, in nanoseconds. Before the first one.
    void stamp() noexcept { stamps_ = true; }
    std::uint32_t produced() const noexcept { return produced_.load(std::memory_order_relaxed); }

    // Whether the driver, which has consumed up to `from`, would find a completion there;
    // `solicited`: one that asks for attention, as errors always do.
    bool written_since(std::uint32_t from, bool solicited) const noexcept {
        const std::uint32_t count = (produced() - from) & mlx5::kConsumerIndexMask;
        if (count > view_.entries) return false;  // older than what is there: consumed long ago
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t index = from + i;
            const auto* const last =
                reinterpret_cast<const std::uint8_t*>(entry(view_, index) + sizeof(mlx5::Cqe) - 1);
            const std::uint8_t op_own = __atomic_load_n(last, __ATOMIC_ACQUIRE);
            const mlx5::CqeOpcode opcode = mlx5::cqe_opcode(op_own);
            const bool phase = (op_own & mlx5::kOwnerMask) != 0;
            if (opcode == mlx5::CqeOpcode::invalid ||
                phase != mlx5::owner_phase(index, view_.entries))
                return false;  // claimed, and being written
            if (!solicited || (op_own & mlx5::kSolicited) != 0 ||
                opcode >= mlx5::CqeOpcode::requester_error)
                return true;
        }
        return false;
    }

  private:
    static std::byte* entry(const mlx5::CompletionQueueView& view, std::uint32_t index) noexcept {
        // Of a 128-byte entry the second half is the completion proper.
        return view.buffer + std::size_t{index & (view.entries - 1)} * view.entry_bytes +
               (view.entry_bytes - sizeof(mlx5::Cqe));
    }

    // Judges by the newest value of produced_, which it leaves in `index`: between two reads other
    // threads may have filled entries and the driver consumed them, and an index behind the
    // consumer's would look like a full queue.
    bool full(std::uint32_t& index) const noexcept {
        for (;;) {
            const std::uint32_t consumed =
                read_record(view_.doorbell_record + mlx5::kRecordConsumer);
            if (((index - consumed) & mlx5::kConsumerIndexMask) < view_.entries) return false;
            const std::uint32_t now = produced_.load(std::memory_order_relaxed);
            if (now == index) return true;
            index = now;
        }
    }

    template <class Entry>
    void write(std::uint32_t index, const Entry& completion) noexcept {
        static_assert(sizeof(Entry) == sizeof(mlx5::Cqe));
        constexpr std::size_t kLast = sizeof(Entry) - 1;
        std::byte* const at = entry(view_, index);
        std::memcpy(at, &completion, kLast);
        if constexpr (std::is_same_v<Entry, mlx5::Cqe>)
            if (stamps_) {
                const auto now = std::chrono::steady_clock::now().time_since_epoch();
                const mlx5::be64 stamp(static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
                std::memcpy(at + offsetof(mlx5::Cqe, timestamp), &stamp, sizeof stamp);
            }
        const auto phase =
            mlx5::owner_phase(index, view_.entries) ? mlx5::kOwnerMask : std::uint8_t{0};
        const auto op_own =
            static_cast<std::uint8_t>((completion.op_own & ~mlx5::kOwnerMask) | phase);
        __atomic_store_n(reinterpret_cast<std::uint8_t*>(at + kLast), op_own, __ATOMIC_RELEASE);
    }

    mlx5::CompletionQueueView view_;
    std::atomic<std::uint32_t> produced_{0};
    bool stamps_ = false;
};

}  // namespace verbatim::softnic

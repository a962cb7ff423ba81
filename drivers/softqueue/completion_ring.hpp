// The device's side of a completion queue. Several queue pairs, in several threads, may write into
// one queue: each claims the next entry with one compare-and-swap and fills it, the ownership bit
// last. A thread that is preempted in between delays the reader, never another writer. That the
// queue is armed is a bit of the claimed word itself: a writer either claims before the arming,
// which then sees its entry counted, or sees the bit. Queues that are not armed pay nothing for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

namespace verbatim::softnic {

// A big-endian word of a doorbell record, which a driver thread writes and this device reads.
inline std::uint32_t read_record(const volatile std::uint32_t* word) noexcept {
    return mlx5::be32::from_raw(__atomic_load_n(word, __ATOMIC_ACQUIRE)).native();
}

// A completion with data before it, in an entry of 128 bytes.
struct CqeWithData : mlx5::Cqe {
    const std::byte* data = nullptr;
    std::size_t data_bytes = 0;
};

class CompletionRing {
    struct Nothing {
        void operator()() const noexcept {}
    };

  public:
    // The entries must have been initialised with initialize(). `produced`: how many completions
    // came before, for tests of long lives.
    explicit CompletionRing(const mlx5::CompletionQueueView& view,
                            std::uint32_t produced = 0) noexcept
        : view_(view), produced_(kFloor + produced) {}

    // Called by the thread whose completion the armed queue waited for; once for each arming.
    struct Signal {
        void (*call)(void* context) noexcept = nullptr;
        void* context = nullptr;
    };
    void set_signal(const Signal& signal) noexcept { signal_ = signal; }

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
    // queue is full, nothing was written; no entry is overwritten unless that is to be.
    // `before_visible` is called once it is sure that the completion will be written, and before
    // the driver can see it.
    template <class Entry, class Function = Nothing>
    bool push(const Entry& completion, Function&& before_visible = {}) noexcept {
        std::uint32_t index = produced_.load(std::memory_order_relaxed);
        do {
            if (used(index) >= view_.entries) [[unlikely]]
                return push_slowly(completion, before_visible);
        } while (!produced_.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
        before_visible();
        write(index, completion);
        return true;
    }

    // The driver's arming word (mlx5::kArmSolicited). Ignored if its sequence had an event already:
    // the driver counts events by two bits, and several for one sequence could bring it back to
    // where it was. Threads: the polling one.
    void arm(std::uint32_t word) noexcept {
        const std::uint32_t sequence = word >> mlx5::kArmSequenceShift & mlx5::kArmSequenceMask;
        const bool is_armed = (produced_.load(std::memory_order_acquire) & kArmed) != 0;
        if (std::exchange(last_sequence_, sequence) == sequence && !is_armed) return;
        solicited_only_.store((word & mlx5::kArmSolicited) != 0, std::memory_order_relaxed);
        const std::uint32_t now = produced_.fetch_or(kArmed, std::memory_order_acq_rel);
        if (has_news(word & mlx5::kConsumerIndexMask, now)) fire();
    }
    // Raises the event if the queue is armed. Any thread.
    void fire() noexcept {
        if (disarm() && signal_.call != nullptr) signal_.call(signal_.context);
    }
    // Instead of an event, which the caller raises in a way of its own. False: it is not armed.
    bool disarm() noexcept {
        return (produced_.fetch_and(~kArmed, std::memory_order_acq_rel) & kArmed) != 0;
    }

    // Goes on in another buffer, whose entries are initialised; ends the old one with an entry that
    // says so. False: more is unpolled than fits. Nobody pushes meanwhile.
    bool move_to(const mlx5::CompletionQueueView& view) noexcept {
        const std::uint32_t index = produced_.load(std::memory_order_relaxed) & ~kArmed;
        const std::uint32_t unpolled = used(index) & mlx5::kConsumerIndexMask;
        if (unpolled + 1 > view.entries) return false;
        mlx5::Cqe end;
        end.op_own = mlx5::make_op_own(mlx5::CqeOpcode::resized, false);
        if (unpolled < view_.entries) write(index, end);
        produced_.fetch_add(1, std::memory_order_relaxed);
        view_ = view;
        return true;
    }

    // A completion was lost for want of room; asked once.
    void mark_overrun() noexcept { overrun_.store(true, std::memory_order_release); }
    bool take_overrun() noexcept {
        return overrun_.load(std::memory_order_relaxed) && overrun_.exchange(false);
    }

    const mlx5::CompletionQueueView& view() const noexcept { return view_; }
    // From now on a full queue is written over: the program counts by itself. Before the first one.
    void ignore_overrun() noexcept { ignores_overrun_ = true; }
    // From now on completions say when they were written, in nanoseconds. Before the first one.
    void stamp() noexcept { stamps_ = true; }
    // Completions so far; counted from anywhere, and back to there after very many.
    std::uint32_t produced() const noexcept {
        return produced_.load(std::memory_order_relaxed) & ~kArmed;
    }

    // The index of the first completion at or behind `from` that is written; `solicited`: one that
    // asks for attention, as errors always do. None: the driver would find none there.
    std::optional<std::uint32_t> first_written(std::uint32_t from, bool solicited) const noexcept {
        constexpr std::uint32_t kBehind = mlx5::kConsumerIndexMask / 2;
        const std::uint32_t end = produced();
        std::uint32_t count = (end - from) & mlx5::kConsumerIndexMask;
        if (count > kBehind) return std::nullopt;  // `from` was read later
        count = std::min(count, view_.entries);    // older ones are overwritten
        for (std::uint32_t index = end - count; index != end; ++index) {
            const auto* const last =
                reinterpret_cast<const std::uint8_t*>(entry(view_, index) + sizeof(mlx5::Cqe) - 1);
            const std::uint8_t op_own = __atomic_load_n(last, __ATOMIC_ACQUIRE);
            const mlx5::CqeOpcode opcode = mlx5::cqe_opcode(op_own);
            const bool phase = (op_own & mlx5::kOwnerMask) != 0;
            if (opcode == mlx5::CqeOpcode::invalid ||
                phase != mlx5::owner_phase(index, view_.entries))
                return std::nullopt;  // claimed, and being written
            if (!solicited || is_solicited(op_own)) return index & mlx5::kConsumerIndexMask;
        }
        return std::nullopt;
    }

  private:
    static std::byte* entry(const mlx5::CompletionQueueView& view, std::uint32_t index) noexcept {
        // Of a 128-byte entry the second half is the completion proper.
        return view.buffer + std::size_t{index & (view.entries - 1)} * view.entry_bytes +
               (view.entry_bytes - sizeof(mlx5::Cqe));
    }

    // produced_: [31] armed, [30:0] counter, which never falls below the floor, so that the
    // consumer's, of 24 bits, is never the greater one and no difference borrows from the armed
    // bit. Bit 30 sends it back.
    static constexpr std::uint32_t kArmed = std::uint32_t{1} << 31;
    static constexpr std::uint32_t kLapped = std::uint32_t{1} << 30;
    static constexpr std::uint32_t kFloor = mlx5::kConsumerIndexMask + 1;

    // Entries that the driver has not consumed; more than any queue has if something is to be done
    // before the next one is claimed.
    std::uint32_t used(std::uint32_t index) const noexcept {
        const std::uint32_t consumed = read_record(view_.doorbell_record + mlx5::kRecordConsumer);
        return (index - consumed) & (kArmed | kLapped | mlx5::kConsumerIndexMask);
    }

    // The queue is armed or full, or the counter has to go back.
    template <class Entry, class Function>
    [[gnu::noinline]] bool push_slowly(Entry completion, Function&& before_visible) noexcept {
        std::uint32_t index = produced_.load(std::memory_order_relaxed);
        for (;;) {
            if ((used(index) & mlx5::kConsumerIndexMask) >= view_.entries && !ignores_overrun_) {
                // Judged by the newest value: between two reads other threads may have filled
                // entries and the driver consumed them, and an index behind the consumer's would
                // look like a full queue.
                const std::uint32_t now = produced_.load(std::memory_order_relaxed);
                if (now == index) return false;
                index = now;
                continue;
            }
            const std::uint32_t next =
                (index & kLapped) != 0 ? index + 1 - kLapped + kFloor : index + 1;
            if (produced_.compare_exchange_weak(index, next, std::memory_order_acq_rel,
                                                std::memory_order_relaxed))
                break;
        }
        before_visible();
        write(index & ~kArmed, completion);
        const bool wanted =
            !solicited_only_.load(std::memory_order_relaxed) || is_solicited(completion.op_own);
        if ((index & kArmed) != 0 && wanted) fire();
        return true;
    }

    static bool is_solicited(std::uint8_t op_own) noexcept {
        const mlx5::CqeOpcode opcode = mlx5::cqe_opcode(op_own);
        return (op_own & mlx5::kSolicited) != 0 || opcode == mlx5::CqeOpcode::requester_error ||
               opcode == mlx5::CqeOpcode::responder_error;
    }

    // Whether something that the driver had not polled when it armed deserves the event. Of an
    // entry that is claimed but not written nobody knows: the event comes, and its taker looks
    // again.
    bool has_news(std::uint32_t consumer, std::uint32_t now) const noexcept {
        const std::uint32_t count = (now - consumer) & mlx5::kConsumerIndexMask;
        if (count == 0) return false;
        if (!solicited_only_.load(std::memory_order_relaxed) || count > view_.entries) return true;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t index = (now & ~kArmed) - count + i;
            const auto* const at = reinterpret_cast<const std::uint8_t*>(entry(view_, index)) +
                                   offsetof(mlx5::Cqe, op_own);
            const std::uint8_t op_own = __atomic_load_n(at, __ATOMIC_ACQUIRE);
            const bool written =
                ((op_own & mlx5::kOwnerMask) != 0) == mlx5::owner_phase(index, view_.entries) &&
                mlx5::cqe_opcode(op_own) != mlx5::CqeOpcode::invalid;
            if (!written || is_solicited(op_own)) return true;
        }
        return false;
    }

    static void copy_all_but_last(std::byte* to, const mlx5::ErrorCqe& completion) noexcept {
        std::memcpy(to, &completion, sizeof completion - 1);
    }
    // Field by field, because a copy in words would wait for the stores that made the fields.
    static void copy_all_but_last(std::byte* to, const mlx5::Cqe& from) noexcept {
        auto& entry = *reinterpret_cast<mlx5::Cqe*>(to);
        entry.scatter = from.scatter;
        entry.shared_receive_index = from.shared_receive_index;
        entry.immediate = from.immediate;
        entry.app = from.app, entry.app_op = from.app_op, entry.app_info = from.app_info;
        entry.byte_count = from.byte_count;
        entry.timestamp = from.timestamp;
        entry.opcode_number = from.opcode_number;
        entry.wqe_counter = from.wqe_counter;
        entry.signature = from.signature;
    }

    void write(std::uint32_t index, const CqeWithData& completion) noexcept {
        std::memcpy(entry(view_, index) - sizeof(mlx5::Cqe), completion.data,
                    completion.data_bytes);
        write(index, static_cast<const mlx5::Cqe&>(completion));
    }
    template <class Entry>
    void write(std::uint32_t index, const Entry& completion) noexcept {
        static_assert(sizeof(Entry) == sizeof(mlx5::Cqe));
        constexpr std::size_t kLast = sizeof(Entry) - 1;
        std::byte* const at = entry(view_, index);
        copy_all_but_last(at, completion);
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
    std::atomic<std::uint32_t> produced_;
    bool stamps_ = false;
    bool ignores_overrun_ = false;
    std::atomic<bool> overrun_{false};
    std::atomic<bool> solicited_only_{false};
    std::uint32_t last_sequence_ = 0xffffffff;  // armed last; of the polling thread
    Signal signal_;
};

}  // namespace verbatim::softnic

// A completion queue finds finished entries by their owner phase, retires the requests behind them
// exactly once, and reports the outcome of each. Threads: one at a time, which is also the one that
// posts to the attached queues. Source: PRM, "Completion Queues" (ownership), "Completion Queue
// Entry", "Completion with Error".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/mlx5/sent_completion.hpp>
#include <verbatim/mlx5/shared_receive_queue.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim {
class CompletionQueueHandle;
}

namespace verbatim::mlx5 {

// The completions that raise the event of an armed completion queue.
enum class Notify : std::uint8_t {
    any,        // the next completion
    solicited,  // the next receive whose sender asked for it, or the next error
};

// The queues in which a queue pair's entries retire, by its number. Open addressing: numbers are
// given out one after the other, so their low bits seldom collide.
class QueuePairTable {
  public:
    struct Entry {
        std::uint32_t number = kFree;
        SendRing* send = nullptr;
        ReceiveQueue* receive = nullptr;
        SharedReceiveQueue* shared = nullptr;  // instead of `receive`
    };

    // Null where the number is not attached.
    const Entry* find(std::uint32_t number) const noexcept {
        for (std::uint32_t i = number & mask_;; i = (i + 1) & mask_) {
            if (entries_[i].number == number) return &entries_[i];
            if (entries_[i].number == kFree) return nullptr;
        }
    }
    // Adds to the queues of the queue pair `queues.number`; null queues change nothing.
    void insert(const Entry& queues);
    void erase(std::uint32_t number);

  private:
    static constexpr std::uint32_t kFree = 0xffffffff;  // numbers have 24 bits
    Entry& place_for(std::uint32_t number) noexcept;
    void rebuild(std::size_t slots);

    std::vector<Entry> entries_ = std::vector<Entry>(8);
    std::uint32_t mask_ = 7;
    std::size_t used_ = 0;
};

class CompletionQueue {
  public:
    // The device has marked all entries invalid. It must have room for a completion of every
    // request that can be outstanding. That includes unsignaled ones: in the error state each is
    // flushed with a completion. Throws Error(invalid_argument) on a view that cannot work.
    explicit CompletionQueue(const CompletionQueueView& view);
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    // Lets entries retire in these queues (of one queue pair; either may be null). They must
    // outlive the attachment. Allocates.
    void attach(SendRing* send, ReceiveQueue* receive);
    // The same for a queue pair that takes its receives from a shared receive queue. By its number
    // where its sends complete elsewhere.
    void attach(SendRing& send, SharedReceiveQueue& receive);
    void attach(std::uint32_t queue_pair, SharedReceiveQueue& receive);
    // Forgets a queue pair; its entries still in the queue are dropped, as by discard().
    void detach(std::uint32_t number);
    // Drops the entries of a queue pair that is being reset, so that they cannot retire later
    // requests. Its entries of a shared receive queue are free again there, without a completion.
    // Poll first if their ids are needed.
    void discard(std::uint32_t number) noexcept;

    // Takes up to completions.size() finished requests; returns their number. If there are none it
    // lets a software device run (once) and polls again. One doorbell-record update per call.
    std::size_t poll(std::span<Completion> completions) noexcept {
        if (completions.empty()) return 0;
        if (completions.size() == 1 && take_one(completions.front())) return 1;
        const Cqe* const entry = finished();
        if (entry == nullptr) return poll_idle(completions);
        const std::size_t sends =
            starts_run(*entry) && recent_->single_blocks() ? take_run<true>(entry, completions) : 0;
        if (sends != completions.size()) return sends + take(completions.subspan(sends), sends);
        publish();
        return sends;
    }

    // -- Events: sleep without missing a completion --
    // Asks for one event, once, for completions that no poll has taken yet or that are still to
    // come. The rule (completion_wait.hpp follows it): arm, poll once more, and only if that finds
    // nothing wait for the event. After it: count_event(), poll, and arm again. Receives must be
    // posted before. An event may come without a completion. Threads: the polling one. Errors:
    // unsupported (the device gives no register).
    Errc arm(Notify notify = Notify::any) noexcept;
    // Counts an event of this queue that was taken from its channel. A device ignores an arming
    // with the sequence of an event that it raised.
    void count_event() noexcept { ++events_; }

    // Continues in a longer or shorter buffer, by way of the device; entries not polled yet come
    // along. `handle` is this queue's. Threads: the polling one; others may post meanwhile. Throws
    // Error as CompletionQueueHandle::resize(), without an effect.
    void resize(CompletionQueueHandle& handle, std::uint32_t entries);

    std::uint32_t entries() const noexcept { return mask_ + 1; }
    std::uint32_t number() const noexcept { return number_; }
    // Entries that named no outstanding request of an attached queue: 0 unless a device is at
    // fault, or queues were detached or discarded.
    std::uint64_t strays() const noexcept { return strays_; }

  private:
    // A queue without new entries. Not inline, as take(): poll() then needs few registers, which
    // makes a poll of one or two completions faster.
    [[gnu::noinline]] std::size_t poll_idle(std::span<Completion> completions) noexcept {
        if (progress_.call == nullptr) return 0;
        progress_.call(progress_.context);
        return take(completions, 0);
    }
    // `before`: how many were taken from the queue since its record was updated.
    [[gnu::noinline]] std::size_t take(std::span<Completion> completions,
                                       std::size_t before) noexcept {
        const std::uint32_t first = consumer_ - static_cast<std::uint32_t>(before);
        std::size_t count = 0;
        while (count < completions.size()) {
            const Cqe* entry = finished();
            if (entry == nullptr) break;
            if (const std::size_t sends = take_sends(entry, completions.subspan(count))) {
                count += sends;
                continue;
            }
            if (decode(*entry, completions[count])) [[likely]]
                ++count;
            ++consumer_;
        }
        if (consumer_ != first) publish();
        return count;
    }

    // The commonest entries: finished requests that return nothing, of the queue whose entry came
    // before, in 64-byte entries.
    [[gnu::always_inline]] bool starts_run(const Cqe& entry) const noexcept {
        static_assert(make_op_own(CqeOpcode::requester, true) == kOwnerMask);
        return entry.op_own <= kOwnerMask && entry_log2_ == kCqeLog2;
    }
    // Takes the next entry if it is one of those.
    [[gnu::always_inline]] bool take_one(Completion& completion) noexcept {
        if (!recent_->single_blocks()) return false;
        const auto& entry =
            *reinterpret_cast<const Cqe*>(ring_ + (std::size_t{consumer_ & mask_} << kCqeLog2));
        const bool phase = owner_phase(consumer_, entries());
        if (__atomic_load_n(&entry.op_own, __ATOMIC_ACQUIRE) != static_cast<std::uint8_t>(phase))
            return false;
        const std::uint32_t opcode = entry.opcode_number.raw() ^ recent_number_raw_;
        std::uint64_t id;
        if (opcode >= static_cast<std::uint32_t>(Opcode::read) ||
            !recent_->retire_single(entry.wqe_counter, id))
            return false;
        SentCompletion(recent_number_).store(&completion, id, opcode);
        ++consumer_;
        publish();
        return true;
    }
    [[gnu::always_inline]] std::size_t take_sends(const Cqe* entry,
                                                  std::span<Completion> completions) noexcept {
        if (!starts_run(*entry)) return 0;
        return recent_->single_blocks() ? take_run<true>(entry, completions)
                                        : take_run<false>(entry, completions);
    }
    // A run of them, up to the end of the ring; stops at any other entry, which the caller then
    // takes.
    template <bool kSingle>
    [[gnu::always_inline]] std::size_t take_run(const Cqe* entry,
                                                std::span<Completion> completions) noexcept {
        const std::uint8_t done = entry->op_own;
        const std::size_t room =
            std::min<std::size_t>(completions.size(), entries() - (consumer_ & mask_));
        SendRing::Retirement<kSingle> retirement(*recent_);
        const std::uint32_t number_raw = recent_number_raw_;
        const SentCompletion common(recent_number_);
        Completion* out = completions.data();
        Completion* const end = out + room;
        do {
            // The number's bytes gone, the opcode is left.
            const std::uint32_t opcode = entry->opcode_number.raw() ^ number_raw;
            std::uint64_t id;
            if (opcode >= static_cast<std::uint32_t>(Opcode::read) ||
                !retirement.take(entry->wqe_counter, id))
                break;
            common.store(out, id, opcode);
            ++entry;
        } while (++out != end && __atomic_load_n(&entry->op_own, __ATOMIC_ACQUIRE) == done);
        const auto count = static_cast<std::size_t>(out - completions.data());
        if (count == 0 || !retirement.retire(*recent_)) return 0;
        consumer_ += static_cast<std::uint32_t>(count);
        return count;
    }

    static constexpr std::uint32_t kCqeLog2 = 6;
    static_assert(sizeof(Cqe) == 1 << kCqeLog2);
    // In a 128-byte entry the CQE is the second half.
    Cqe* entry_at(std::uint32_t counter) const noexcept {
        std::byte* entry = ring_ + (std::size_t{counter & mask_} << entry_log2_);
        return reinterpret_cast<Cqe*>(entry + (std::size_t{1} << entry_log2_) - sizeof(Cqe));
    }

    // The next entry, if the device has written it. Acquire: the entry's other bytes, which the
    // device wrote before op_own, are read after it.
    const Cqe* finished() const noexcept {
        const Cqe* entry = entry_at(consumer_);
        const std::uint8_t op_own = __atomic_load_n(&entry->op_own, __ATOMIC_ACQUIRE);
        const bool phase = (op_own & kOwnerMask) != 0;
        if (phase != owner_phase(consumer_, entries()) ||
            cqe_opcode(op_own) == CqeOpcode::invalid) {
            return nullptr;
        }
        return entry;
    }

    // Gives the entries read so far back to the device. Release: they have been read.
    void publish() noexcept {
        __atomic_store_n(record_, be32(consumer_ & kConsumerIndexMask).raw(), __ATOMIC_RELEASE);
    }

    // False: a stray.
    bool decode(const Cqe& entry, Completion& completion) noexcept {
        const CqeOpcode opcode = cqe_opcode(entry.op_own);
        const std::uint32_t opcode_number = entry.opcode_number.native();
        const auto* queues = table_.find(opcode_number & 0xffffff);
        if (queues == nullptr) [[unlikely]]
            return stray();
        completion = Completion{};
        completion.queue_pair = queues->number;
        if (opcode == CqeOpcode::requester) {
            completion.opcode = static_cast<Opcode>(opcode_number >> 24);
            return retire_send(entry, *queues, completion);
        }
        if (opcode <= CqeOpcode::send_invalidate) return retire_receive(entry, *queues, completion);
        return decode_error(entry, *queues, completion);
    }

    bool retire_send(const Cqe& entry, const QueuePairTable::Entry& queues,
                     Completion& completion) noexcept {
        if (queues.send == nullptr) [[unlikely]]
            return stray();
        const std::uint16_t counter = entry.wqe_counter.native();
        const auto id = queues.send->retire(counter, (entry.op_own & kFormatMask) == 0);
        if (!id) [[unlikely]]
            return stray();
        completion.id = *id;
        recent_ = entry_log2_ == kCqeLog2 ? queues.send : &SendQueue::closed();
        recent_number_ = queues.number;
        recent_number_raw_ = be32(queues.number).raw();
        if (completion.opcode >= Opcode::read) finish_send(entry, *queues.send, completion);
        if ((entry.op_own & kFormatMask) != 0) [[unlikely]] {
            scatter_into_elements(entry, *queues.send, completion);
        }
        return true;
    }

    bool retire_receive(const Cqe& entry, const QueuePairTable::Entry& queues,
                        Completion& completion) noexcept {
        if (queues.receive == nullptr) [[unlikely]]
            return retire_shared(entry, queues, completion);
        const auto id = queues.receive->retire();
        if (!id) [[unlikely]]
            return stray();
        completion.id = *id;
        tell_received(entry, completion);
        if ((entry.op_own & kFormatMask) != 0) [[unlikely]] {
            scatter_into_entry(entry, queues.receive->last_retired(), completion);
        }
        return true;
    }

    // Not inline: polls of plain receive queues stay as small as without it.
    bool retire_shared(const Cqe& entry, const QueuePairTable::Entry& queues,
                       Completion& completion) noexcept;

    static void tell_received(const Cqe& entry, Completion& completion) noexcept {
        const CqeOpcode opcode = cqe_opcode(entry.op_own);
        completion.bytes = entry.byte_count.native();
        completion.has_immediate =
            opcode == CqeOpcode::write_immediate || opcode == CqeOpcode::send_immediate;
        completion.kind = opcode == CqeOpcode::write_immediate ? CompletionKind::receive_immediate
                                                               : CompletionKind::receive;
        completion.invalidated = opcode == CqeOpcode::send_invalidate;
        if (completion.has_immediate || completion.invalidated)
            completion.immediate = entry.immediate.native();
    }

    // Requests that return something, or that opcodes do not tell apart.
    static void finish_send(const Cqe& entry, const SendRing& queue,
                            Completion& completion) noexcept {
        if (completion.opcode == Opcode::local_invalidate)
            completion.opcode = queue.key_update_at(entry.wqe_counter.native());
        else
            completion.bytes = is_atomic(completion.opcode)
                                   ? queue.atomic_bytes_at(entry.wqe_counter.native())
                                   : entry.byte_count.native();
    }

    // The device goes on in this buffer.
    void move_to(const CompletionQueueView& view);

    // Cold. Scatter-to-CQE: a device may leave a few bytes of data in the CQE, for us to copy.
    // Status local_length where the request's memory cannot take them, or the CQE cannot hold them.
    void scatter_into_elements(const Cqe& entry, const SendRing& queue,
                               Completion& completion) const noexcept;
    void scatter_into_entry(const Cqe& entry, std::span<const std::byte> segments,
                            Completion& completion) const noexcept;
    bool decode_error(const Cqe& entry, const QueuePairTable::Entry& queues,
                      Completion& completion) noexcept;
    bool stray() noexcept {
        ++strays_;
        return false;
    }

    std::byte* ring_;
    std::uint32_t consumer_ = 0;
    std::uint32_t mask_;
    std::uint32_t entry_log2_;
    std::uint32_t number_;
    volatile std::uint32_t* record_;  // owner: this side
    // The ring whose request retired last, and its number. It is a ring without requests where it
    // must be looked up, as always in longer entries.
    SendRing* recent_ = &SendQueue::closed();
    std::uint32_t recent_number_ = 0, recent_number_raw_ = 0;
    QueuePairTable table_;
    ProgressHook progress_;
    std::uint64_t strays_ = 0;
    volatile std::byte* register_;  // null: cannot be armed
    ArmHook arm_hook_;
    std::uint32_t events_ = 0;
};

}  // namespace verbatim::mlx5

// The cold half of the completion queue: attachments, errors, data that came inside a CQE.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include <verbatim/mlx5/completion_queue.hpp>

#include "atomic_results.hpp"
#include "queue_limits.hpp"

namespace verbatim::mlx5 {
namespace {

constexpr std::uint32_t kMaxCompletions =
    1U << 22;  // the consumer index has 24 bits, one of them the phase

const CompletionQueueView& checked(const CompletionQueueView& view) {
    require(aligned(view.buffer, 64), view, "the buffer is null or misaligned");
    require(std::has_single_bit(view.entries) && view.entries <= kMaxCompletions, view,
            "the number of entries is not a power of two up to 2^22");
    require(view.entry_bytes == 64 || view.entry_bytes == 128, view,
            "entries are not 64 or 128 bytes");
    require(view.doorbell_record != nullptr, view, "the doorbell record is null");
    return view;
}

constexpr bool is_responder(CqeOpcode opcode) {
    return opcode == CqeOpcode::responder_error ||
           (opcode >= CqeOpcode::write_immediate && opcode <= CqeOpcode::send_invalidate);
}

using Bytes = std::span<const std::byte>;

// The data that a device left in the CQE; nothing where there cannot be as many there, or in a form
// that was never asked for.
std::optional<Bytes> scattered(const Cqe& entry, std::size_t bytes, std::size_t entry_bytes) {
    const std::uint8_t format = entry.op_own & kFormatMask;
    if (format == kInlineScatter32 && bytes <= entry.scatter.size())
        return Bytes(entry.scatter).first(bytes);
    constexpr std::size_t kBefore = sizeof(Cqe128::scatter);
    if (format == kInlineScatter64 && bytes <= kBefore && entry_bytes == sizeof(Cqe128))
        return Bytes(reinterpret_cast<const std::byte*>(&entry) - kBefore, bytes);
    return std::nullopt;
}

// Copies as much of `data` as the segment takes; what is left.
Bytes fill(const std::byte* segment_bytes, Bytes data) {
    DataSegment segment;
    std::memcpy(&segment, segment_bytes, sizeof segment);
    const std::uint32_t count = segment.byte_count.native();
    const std::size_t now = count == 0 ? data.size() : std::min<std::size_t>(count, data.size());
    std::memcpy(reinterpret_cast<void*>(segment.address.native()), data.data(), now);
    return data.subspan(now);
}

bool ends_list(const std::byte* segment_bytes) {
    DataSegment segment;
    std::memcpy(&segment, segment_bytes, sizeof segment);
    return segment.key.native() == kInvalidKey;
}

// The request has retired, without all of its data.
void fail(Completion& completion) {
    completion.status = Errc::local_length;
    completion.syndrome = static_cast<std::uint8_t>(Syndrome::local_length);
}

}  // namespace

CompletionQueue::CompletionQueue(const CompletionQueueView& view)
    : ring_(checked(view).buffer),
      mask_(view.entries - 1),
      entry_log2_(static_cast<std::uint32_t>(std::countr_zero(view.entry_bytes))),
      number_(view.number),
      record_(view.doorbell_record + kRecordConsumer),
      progress_(view.progress_hook),
      register_(view.doorbell_register),
      arm_hook_(view.arm_hook) {}

void CompletionQueue::attach(SendRing* send, ReceiveQueue* receive) {
    if (send == nullptr && receive == nullptr) return;
    const std::uint32_t number = send != nullptr ? send->number() : receive->number();
    if (send != nullptr && receive != nullptr && receive->number() != number) {
        throw Error(Errc::invalid_argument, "completion queue " + std::to_string(number_),
                    "the send and the receive queue are of different queue pairs",
                    "attach the two queues of one queue pair in one call");
    }
    recent_ = &SendQueue::closed();
    table_.insert({.number = number, .send = send, .receive = receive});
}

void CompletionQueue::attach(SendRing& send, SharedReceiveQueue& receive) {
    recent_ = &SendQueue::closed();
    table_.insert({.number = send.number(), .send = &send, .shared = &receive});
}

void CompletionQueue::attach(std::uint32_t queue_pair, SharedReceiveQueue& receive) {
    table_.insert({.number = queue_pair, .shared = &receive});
}

void CompletionQueue::detach(std::uint32_t number) {
    discard(number);
    table_.erase(number);
    recent_ = &SendQueue::closed();
}

void CompletionQueue::discard(std::uint32_t number) noexcept {
    constexpr std::uint32_t kNobody = 0xffffff;
    const auto* const queues = table_.find(number);
    SharedReceiveQueue* const shared = queues != nullptr ? queues->shared : nullptr;
    for (std::uint32_t at = consumer_; at - consumer_ < entries(); ++at) {
        Cqe* entry = entry_at(at);
        const std::uint8_t op_own = __atomic_load_n(&entry->op_own, __ATOMIC_ACQUIRE);
        const bool phase = (op_own & kOwnerMask) != 0;
        if (phase != owner_phase(at, entries()) || cqe_opcode(op_own) == CqeOpcode::invalid) return;
        // The entry is ours until the consumer index passes it, so it may be rewritten to name
        // nobody.
        if ((entry->opcode_number.native() & 0xffffff) != number) continue;
        if (shared != nullptr && is_responder(cqe_opcode(op_own))) {
            static_cast<void>(shared->retire(entry->wqe_counter.native()));
        }
        entry->opcode_number = be32(kNobody);
    }
}

bool CompletionQueue::retire_shared(const Cqe& entry, const QueuePairTable::Entry& queues,
                                    Completion& completion) noexcept {
    if (queues.shared == nullptr) return stray();
    const std::uint16_t index = entry.wqe_counter.native();
    const auto id = queues.shared->retire(index);
    if (!id) return stray();
    completion.id = *id;
    tell_received(entry, completion);
    if ((entry.op_own & kFormatMask) != 0)
        scatter_into_entry(entry, queues.shared->scatter_list(index), completion);
    return true;
}

bool CompletionQueue::decode_error(const Cqe& entry, const QueuePairTable::Entry& queues,
                                   Completion& completion) noexcept {
    const auto error = std::bit_cast<ErrorCqe>(entry);
    completion.status = to_errc(error.syndrome);
    completion.syndrome = error.syndrome;
    completion.vendor_syndrome = error.vendor_syndrome;
    std::optional<std::uint64_t> id;
    const CqeOpcode opcode = cqe_opcode(error.op_own);
    if (opcode == CqeOpcode::requester_error && queues.send != nullptr) {
        completion.opcode = static_cast<Opcode>(error.opcode_number.native() >> 24);
        if (completion.opcode == Opcode::local_invalidate)
            completion.opcode = queues.send->key_update_at(error.wqe_counter.native());
        id = queues.send->retire(error.wqe_counter.native(), false);
        // Flushed, as every entry is, but nobody's request.
        if (id && queues.send->is_filler(error.wqe_counter.native())) return false;
    } else if (opcode == CqeOpcode::responder_error) {
        completion.kind = CompletionKind::receive;
        if (queues.receive != nullptr) {
            id = queues.receive->retire();
        } else if (queues.shared != nullptr) {
            id = queues.shared->retire(error.wqe_counter.native());
        }
    }
    if (!id) return stray();
    completion.id = *id;
    return true;
}

// Only reads and atomics return something. An atomic's result is big endian in an entry, whatever
// it is in memory.
void CompletionQueue::scatter_into_elements(const Cqe& entry, const SendRing& queue,
                                            Completion& completion) const noexcept {
    if (completion.opcode != Opcode::read && !is_atomic(completion.opcode)) return;
    auto data = scattered(entry, completion.bytes, std::size_t{1} << entry_log2_);
    if (!data) return fail(completion);
    const std::uint16_t counter = entry.wqe_counter.native();
    ControlSegment control;
    std::memcpy(&control, queue.block_at(counter), sizeof control);
    const std::uint32_t units = units_of(control);
    std::uint32_t unit = 2;
    std::array<std::byte, sizeof(std::uint64_t)> result;
    if (is_atomic(completion.opcode)) {
        unit = atomic_element_unit(control);
        std::reverse_copy(data->begin(), data->end(), result.begin());
        data = Bytes(result).first(data->size());
    }
    for (; unit < units && !data->empty(); ++unit)
        data = fill(queue.block_at(counter + unit / 4) + std::size_t{unit % 4} * kUnitBytes, *data);
    if (!data->empty()) fail(completion);
}

void CompletionQueue::scatter_into_entry(const Cqe& entry, Bytes segments,
                                         Completion& completion) const noexcept {
    auto data = scattered(entry, completion.bytes, std::size_t{1} << entry_log2_);
    if (!data) return fail(completion);
    for (; !segments.empty() && !data->empty(); segments = segments.subspan(sizeof(DataSegment))) {
        if (ends_list(segments.data())) break;
        data = fill(segments.data(), *data);
    }
    if (!data->empty()) fail(completion);
}

QueuePairTable::Entry& QueuePairTable::place_for(std::uint32_t number) noexcept {
    std::uint32_t i = number & mask_;
    while (entries_[i].number != number && entries_[i].number != kFree) i = (i + 1) & mask_;
    return entries_[i];
}

void QueuePairTable::insert(const Entry& queues) {
    if ((used_ + 1) * 2 > entries_.size()) rebuild(entries_.size() * 2);
    Entry& entry = place_for(queues.number);
    if (entry.number == kFree) {
        entry.number = queues.number;
        ++used_;
    }
    if (queues.send != nullptr) entry.send = queues.send;
    if (queues.receive == nullptr && queues.shared == nullptr) return;
    entry.receive = queues.receive;  // one or the other
    entry.shared = queues.shared;
}

void QueuePairTable::erase(std::uint32_t number) {
    if (find(number) == nullptr) return;
    place_for(number).number = kFree;
    rebuild(entries_.size());  // open addressing: those behind it may have to move up
}

void QueuePairTable::rebuild(std::size_t slots) {
    std::vector<Entry> old(slots);
    old.swap(entries_);
    mask_ = static_cast<std::uint32_t>(entries_.size() - 1);
    used_ = 0;
    for (const Entry& entry : old) {
        if (entry.number == kFree) continue;
        place_for(entry.number) = entry;
        ++used_;
    }
}

}  // namespace verbatim::mlx5

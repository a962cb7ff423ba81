// Both ends of the two-sided ring.
#include "channel.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include <verbatim/driver/error.hpp>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {
namespace {

// Payload of a record that starts `offset` bytes into the ring and may use `room` bytes.
std::size_t payload_room(std::uint64_t ring_bytes, std::uint64_t offset,
                         std::uint64_t room) noexcept {
    const std::uint64_t contiguous = std::min(ring_bytes - offset, room);
    return std::min<std::uint64_t>(contiguous - sizeof(RecordHeader), kMaxRecordBytes);
}

// Where what follows the ring begins, and the slot's length.
constexpr std::uint64_t names_at(std::uint64_t ring_bytes) noexcept {
    return kChannelHeaderBytes + ring_bytes;
}
constexpr std::uint64_t slot_bytes(std::uint64_t ring_bytes, bool names_queues) noexcept {
    return names_at(ring_bytes) + (names_queues ? kXrcQueues * sizeof(XrcQueueName) : 0);
}

// Access words never return, whatever ring is in the slot: a revoker may still watch an earlier
// one's (docs/revocation.md), so that nothing else is ever stored there.
ChannelHeader* make_header(std::byte* slot) noexcept {
    std::memset(slot, 0, offsetof(ChannelHeader, access));
    auto* const header = reinterpret_cast<ChannelHeader*>(slot);
    const std::uint64_t access = header->access.load(std::memory_order_relaxed);
    header->access.store((access + 1) & ~std::uint64_t{1}, std::memory_order_relaxed);
    return header;
}

}  // namespace

constinit ChannelHeader ChannelReceiver::nothing_{};

std::size_t ChannelTerms::bytes() const noexcept { return slot_bytes(ring_bytes, names_queues); }

ChannelSender::ChannelSender(ChannelPlace place) {
    const std::uint64_t offset = place.offset, bytes = place.memory->bytes();
    const bool inside = offset >= kBoardBytes && offset % alignof(ChannelHeader) == 0 &&
                        offset < bytes && bytes - offset > kChannelHeaderBytes;
    std::byte* const start = place.memory->data() + (inside ? offset : 0);
    auto* const header = reinterpret_cast<ChannelHeader*>(start);
    if (!inside || header->fixed.magic != kChannelMagic)
        throw Error(Errc::protocol_error, "two-sided ring", "the peer's memory file has no ring",
                    "use the same version of verbatim on both sides");
    ring_bytes_ = header->fixed.ring_bytes;
    slot_ = header->fixed.slot;
    const std::uint64_t room = bytes - offset;
    const bool names_queues = header->fixed.names_queues != 0;
    if (!std::has_single_bit(ring_bytes_) || ring_bytes_ < 2 * sizeof(RecordHeader) ||
        ring_bytes_ > room || slot_bytes(ring_bytes_, names_queues) > room ||
        slot_ >= WorkBoard::kSlots)
        throw Error(Errc::protocol_error, "two-sided ring",
                    "its length or its slot and its memory file disagree",
                    "use the same version of verbatim on both sides");
    if (!place.memory->populate(offset, slot_bytes(ring_bytes_, names_queues)))
        throw Error(Errc::out_of_memory, "two-sided ring",
                    "the machine has no memory left to map it",
                    "free memory, or use smaller rings (ring_bytes)");
    board_ = reinterpret_cast<WorkBoard*>(place.memory->data());
    ring_ = start + kChannelHeaderBytes;
    wakes_receiver_ = header->fixed.receiver_sleeps != 0;
    domain_ = header->fixed.domain;
    if (names_queues)
        queue_names_ = reinterpret_cast<const XrcQueueName*>(start + names_at(ring_bytes_));
    const std::uint64_t lent = header->terms.lent.load(std::memory_order_acquire);
    header_ = {header, LetGoOfChannel{std::move(place.memory), lent}};
}

// Not of a forked child's copy: the parent goes on.
void LetGoOfChannel::operator()(ChannelHeader* header) const noexcept {
    if (generation == fork_generation()) store_release(header->produced.released, lent);
}

void ChannelSender::set_attached() noexcept { store_release(header_->produced.attached, 1U); }

void ChannelSender::set_sleeps() noexcept { store_release(header_->produced.sender_sleeps, 1U); }

void ChannelSender::set_asleep(std::uint32_t word) noexcept {
    store_release(header_->produced.sender_asleep, word);
}

std::byte* ChannelSender::reserve(std::size_t& capacity, std::size_t wanted) noexcept {
    // The receiver's line is fetched only when the known room could cut a record short.
    const std::size_t span = record_span(std::min(wanted, kMaxRecordBytes));
    if (ring_bytes_ - (produced_ - given_back()) < span) {
        refresh();
        if (broken_ || produced_ - given_back() == ring_bytes_) return nullptr;
    }
    const std::uint64_t offset = produced_ & (ring_bytes_ - 1);
    capacity = payload_room(ring_bytes_, offset, ring_bytes_ - (produced_ - given_back()));
    return ring_ + offset + sizeof(RecordHeader);
}

// The receiver's count moves only forwards, over what was produced, by whole records.
void ChannelSender::refresh() noexcept {
    const std::uint64_t consumed = header_->drain.consumed.load(std::memory_order_acquire);
    broken_ |= consumed - consumed_ > produced_ - consumed_ || consumed % sizeof(RecordHeader) != 0;
    if (!broken_) consumed_ = consumed;
}

void ChannelSender::commit(const RecordHeader& record) noexcept {
    std::byte* const start = ring_ + (produced_ & (ring_bytes_ - 1));
    copy_bytes(start, reinterpret_cast<const std::byte*>(&record), sizeof record);
    produced_ += record_span(record.bytes);
    news_ = true;
    store_release(header_->produced.bytes, produced_);
}

void ChannelSender::commit_question(const RecordHeader& record) noexcept {
    question_at_[asked_++ % kAnswers] = produced_;
    commit(record);
}

std::byte* ChannelSender::reserve_whole(std::size_t bytes) noexcept {
    std::size_t capacity = 0;
    std::byte* to = reserve(capacity, bytes);
    if (to == nullptr || capacity >= bytes) return to;
    const bool at_end = ((produced_ + record_span(capacity)) & (ring_bytes_ - 1)) == 0;
    if (!at_end) return nullptr;
    RecordHeader filler;
    filler.bytes = static_cast<std::uint32_t>(capacity);
    filler.flags = kFillerRecord;
    commit(filler);
    to = reserve(capacity);
    return to != nullptr && capacity >= bytes ? to : nullptr;
}

void ChannelSender::give_up() noexcept {
    store_release(header_->produced.given_up, std::uint32_t{1});
}

void ChannelSender::report_fault(std::uint8_t syndrome) noexcept {
    store_release(header_->produced.fault, std::uint32_t{syndrome});
    news_ = true;
}

std::optional<std::uint32_t> ChannelSender::protection_domain(std::uint32_t queue) const noexcept {
    if (queue_names_ == nullptr || queue == 0) return std::nullopt;
    const std::uint64_t name = queue_names_[queue % kXrcQueues].load(std::memory_order_acquire);
    if (static_cast<std::uint32_t>(name) != queue) return std::nullopt;
    return static_cast<std::uint32_t>(name >> 32);
}

ChannelReceiver::ChannelReceiver(ChannelSlot slot, const ChannelTerms& terms) noexcept
    : slot_(std::move(slot)),
      header_(make_header(slot_.data())),
      ring_(slot_.data() + kChannelHeaderBytes),
      ring_bytes_(terms.ring_bytes) {
    if (terms.names_queues)
        std::memset(slot_.data() + names_at(ring_bytes_), 0, kXrcQueues * sizeof(XrcQueueName));
    header_->fixed = {kChannelMagic,
                      ring_bytes_,
                      terms.sleeps ? 1U : 0U,
                      terms.domain,
                      terms.names_queues ? 1U : 0U,
                      slot_.number()};
    set_allowed(terms.allowed);
    set_not_ready_for(terms.not_ready_for);
    set_listens(true);
}

ChannelReceiver& ChannelReceiver::operator=(ChannelReceiver&& other) noexcept {
    std::swap(slot_, other.slot_);
    std::swap(header_, other.header_);
    std::swap(ring_, other.ring_);
    std::swap(ring_bytes_, other.ring_bytes_);
    std::swap(consumed_, other.consumed_);
    std::swap(acknowledged_, other.acknowledged_);
    std::swap(not_ready_, other.not_ready_);
    return *this;
}

ChannelPlace ChannelReceiver::lend(std::shared_ptr<const PeerProcess> sender) noexcept {
    slot_.set_lent(std::move(sender));
    store_release(header_->terms.lent, header_->terms.lent.load(std::memory_order_relaxed) + 1);
    return {slot_.slab()->memory(), slot_.offset()};
}

void ChannelReceiver::set_asleep(std::uint32_t word) noexcept {
    store_release(header_->receiver_asleep, word);
}

void ChannelReceiver::set_listens(bool listens) noexcept {
    store_release(header_->listens, listens ? 1U : 0U);
}

XrcQueueName& ChannelReceiver::queue_name(std::uint32_t queue) const noexcept {
    return reinterpret_cast<XrcQueueName*>(slot_.data() +
                                           names_at(ring_bytes_))[queue % kXrcQueues];
}

void ChannelReceiver::name_queue(std::uint32_t queue, std::uint32_t domain) noexcept {
    store_release(queue_name(queue), std::uint64_t{domain} << 32 | queue);
}

void ChannelReceiver::forget_queue(std::uint32_t queue) noexcept {
    store_release(queue_name(queue), std::uint64_t{0});
}

void ChannelReceiver::set_state(ReceiverState state) noexcept {
    if (!slot_) return;
    const auto wanted = static_cast<std::uint32_t>(state);
    if (header_->receiver_state.load(std::memory_order_relaxed) < wanted)
        store_release(header_->receiver_state, wanted);
}

void ChannelReceiver::set_allowed(Access allowed) noexcept {
    store_release(header_->terms.allowed, static_cast<std::uint32_t>(allowed));
}

void ChannelReceiver::set_not_ready_for(std::chrono::nanoseconds time) noexcept {
    store_release(header_->terms.not_ready_for, static_cast<std::uint64_t>(time.count()));
}

ChannelReceiver::Peek ChannelReceiver::peek(RecordHeader& record,
                                            const std::byte*& payload) const noexcept {
    const std::uint64_t available =
        header_->produced.bytes.load(std::memory_order_acquire) - consumed_;
    if (available == 0) return Peek::nothing;
    const std::uint64_t offset = consumed_ & (ring_bytes_ - 1);
    if (available > ring_bytes_ || available % sizeof(RecordHeader) != 0) return Peek::broken;
    std::memcpy(&record, ring_ + offset, sizeof record);
    if (record.bytes > payload_room(ring_bytes_, offset, available) ||
        (record.flags & ~kKnownRecordFlags) != 0)
        return Peek::broken;
    payload = ring_ + offset + sizeof record;
    return Peek::record;
}

void ChannelReceiver::release(const RecordHeader& record) noexcept {
    __atomic_store_n(&consumed_, consumed_ + record_span(record.bytes), __ATOMIC_RELAXED);
    store_release(header_->drain.consumed, consumed_);
}

void ChannelReceiver::acknowledge() noexcept {
    store_release(header_->drain.acknowledged, ++acknowledged_);
}

void ChannelReceiver::refuse(std::uint8_t syndrome) noexcept {
    if (slot_) store_release(header_->drain.refused, std::uint64_t{syndrome});
}

void ChannelReceiver::set_atomic_result(std::uint64_t nth, std::uint64_t before) noexcept {
    store_release(header_->results[nth % kAtomicResults], before);
}

void ChannelReceiver::set_answer(const std::byte* payload, const std::byte* from,
                                 std::size_t bytes) noexcept {
    copy_bytes(ring_ + (payload - ring_) + kQuestionBytes, from, bytes);
}

void ChannelReceiver::count_not_ready() noexcept {
    store_release(header_->drain.waiting, acknowledged_ + 1);
    store_release(header_->drain.not_ready, ++not_ready_);
}

}  // namespace verbatim::softnic

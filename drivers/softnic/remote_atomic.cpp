// Atomic operations at the owner of the memory: the record, its execution, and its result's way
// back.
#include "remote_atomic.hpp"

#include <cstring>

#include "receive_engine.hpp"
#include "remote_copy.hpp"
#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

template <class Value>
Value after(const RemoteAtomic& operation, Value before) noexcept {
    const auto operand = static_cast<Value>(operation.swap_or_add);
    if (operation.swaps == 0) {
        const auto ends = static_cast<Value>(operation.field_ends);
        return static_cast<Value>(((before & ~ends) + (operand & ~ends)) ^
                                  ((before ^ operand) & ends));
    }
    const auto compare = static_cast<Value>(operation.compare);
    const auto swap_mask = static_cast<Value>(operation.swap_mask);
    const bool equal = ((before ^ compare) & static_cast<Value>(operation.compare_mask)) == 0;
    return equal ? static_cast<Value>((before & ~swap_mask) | (operand & swap_mask)) : before;
}

template <class Value>
std::uint64_t exchange(const RemoteAtomic& operation, std::byte* at) noexcept {
    using Word __attribute__((may_alias)) = Value;
    auto* const word = reinterpret_cast<Word*>(at);
    Value before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(word, &before, after(operation, before), true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return before;
}

}  // namespace

std::uint64_t execute(const RemoteAtomic& operation, std::byte* at) noexcept {
    return operation.bytes == sizeof(std::uint32_t) ? exchange<std::uint32_t>(operation, at)
                                                    : exchange<std::uint64_t>(operation, at);
}

// Key and bounds were checked; the owner checks them again. The result goes to the elements from
// `result_unit` on.
SendEngine::Verdict SendEngine::atomic_at_peer(Request& request, const RemoteAtomic& operation,
                                               std::size_t result_unit) noexcept {
    if (atomics_asked_ - atomics_answered_ == kAtomicResults) return Verdict::waits;
    std::byte* const to = shared_->outgoing.reserve_whole(sizeof operation);
    if (to == nullptr) return no_room(request);
    copy_bytes(to, reinterpret_cast<const std::byte*>(&operation), sizeof operation);
    shared_->outgoing.commit(
        {sizeof operation, kFirstRecord | kLastRecord | kAtomicRecord, sizeof operation, 0});
    ++atomics_asked_;
    request.result.bytes = operation.bytes;
    request.result.result_unit = static_cast<std::uint8_t>(result_unit);
    handed_over(request, true);  // nobody but the peer's thread can do it: that must wake
    return Verdict::done;
}

// The peer has acknowledged the oldest message: if it was an atomic operation, its result goes
// where the request says.
void SendEngine::take_atomic_result(Unretired& oldest) noexcept {
    if (oldest.result_unit == 0 || oldest.syndrome != kNoSyndrome) return;
    const std::uint64_t before = shared_->outgoing.atomic_result(atomics_answered_++);
    Request request{WqeReader(view_, oldest.index), {}, {}};
    request.control = request.wqe.read<mlx5::ControlSegment>(0);
    PieceList list;
    oldest.syndrome = collect(request, oldest.result_unit, Access::local_write, list);
    if (oldest.syndrome != kNoSyndrome) return;
    takes_result_ = true;
    keep_for_entry(oldest, request, oldest.result_unit, list);
    const bool big_endian = oldest.in_entry || (view_.big_endian_results & oldest.bytes) != 0;
    scatter(list, 0, AtomicResult(before, oldest.bytes, big_endian).data(), oldest.bytes);
    takes_result_ = false;
    oldest.result_unit = 0;
}

Syndrome ReceiveEngine::reach_word(const RemoteAtomic& operation, std::byte*& word) noexcept {
    if (operation.bytes != sizeof(std::uint32_t) && operation.bytes != sizeof(std::uint64_t))
        return Syndrome::remote_invalid;
    word = reach({operation.address, operation.key, 0}, operation.bytes, Access::remote_atomic);
    if (word == nullptr) return Syndrome::remote_access;
    const bool aligned = reinterpret_cast<std::uintptr_t>(word) % operation.bytes == 0;
    return aligned ? kNoSyndrome : Syndrome::remote_invalid;
}

// False: the queue pair failed. Takes no receive.
bool ReceiveEngine::execute_atomic(const RecordHeader& record, const std::byte* payload) noexcept {
    RemoteAtomic operation;
    if (record.bytes != sizeof operation || (record.flags & kLastRecord) == 0) {
        shared_->failure.set("the peer wrote a malformed atomic operation");
        fail(Syndrome::flushed, Syndrome::remote_invalid);
        return false;
    }
    std::memcpy(&operation, payload, sizeof operation);
    std::byte* at = nullptr;
    const Syndrome syndrome = reach_word(operation, at);
    if (syndrome != kNoSyndrome) {
        shared_->failure.set("the peer's atomic operation at {:#x} is misaligned or not allowed",
                             operation.address);
        fail(Syndrome::flushed, syndrome);
        shared_->report(syndrome == Syndrome::remote_access ? QueuePairEvent::access_error
                                                            : QueuePairEvent::request_error);
        return false;
    }
    shared_->incoming.set_atomic_result(atomics_++, execute(operation, at));
    shared_->incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->incoming.release(record);
    return true;
}

}  // namespace verbatim::softnic

// Execution of atomic operations, and what the owner of the memory does with the record of one.
#include "remote_atomic.hpp"

#include <cstring>

#include "receive_engine.hpp"
#include "remote_copy.hpp"
#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

// Field by field: carries reach a field's highest bit and no further.
template <class Value>
Value add_fields(Value value, Value addend, Value ends) noexcept {
    return static_cast<Value>(((value & ~ends) + (addend & ~ends)) ^ ((value ^ addend) & ends));
}

template <class Value>
std::uint64_t execute_on(const RemoteAtomic& operation, std::byte* at) noexcept {
    using Word __attribute__((may_alias)) = Value;
    auto* const word = reinterpret_cast<Word*>(at);
    const auto operand = static_cast<Value>(operation.swap_or_add);
    const auto compare = static_cast<Value>(operation.compare);
    const auto compare_mask = static_cast<Value>(operation.compare_mask);
    const auto swap_mask = static_cast<Value>(operation.swap_mask);
    const auto ends = static_cast<Value>(operation.field_ends);
    before_store();
    if (operation.swaps == 0 && ends == 0)
        return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
    Value before = __atomic_load_n(word, __ATOMIC_ACQUIRE), after = 0;
    do {
        if (operation.swaps == 0)
            after = add_fields(before, operand, ends);
        else if (((before ^ compare) & compare_mask) == 0)
            after = static_cast<Value>((before & ~swap_mask) | (operand & swap_mask));
        else
            return before;
    } while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return before;
}

}  // namespace

std::uint64_t execute(const RemoteAtomic& operation, std::byte* at) noexcept {
    return operation.bytes == sizeof(std::uint32_t) ? execute_on<std::uint32_t>(operation, at)
                                                    : execute_on<std::uint64_t>(operation, at);
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
    access_.enter();
    const Syndrome syndrome = reach_word(operation, at);
    const std::uint64_t before = syndrome == kNoSyndrome ? execute(operation, at) : 0;
    access_.leave();
    if (syndrome != kNoSyndrome) {
        shared_->failure.set("the peer's atomic operation at {:#x} is misaligned or not allowed",
                             operation.address);
        fail(Syndrome::flushed, syndrome);
        shared_->report(syndrome == Syndrome::remote_access ? QueuePairEvent::access_error
                                                            : QueuePairEvent::request_error);
        return false;
    }
    shared_->incoming.set_atomic_result(atomics_++, before);
    shared_->incoming.acknowledge();
    drained_ = moved_ = true;
    shared_->incoming.release(record);
    return true;
}

}  // namespace verbatim::softnic

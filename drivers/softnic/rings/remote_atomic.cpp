// Execution of atomic operations.
#include "remote_atomic.hpp"

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

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

}  // namespace verbatim::softnic

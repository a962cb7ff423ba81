// Atomic operations in a peer's memory, by this thread where that is mapped, else by the peer
// (remote_atomic.cpp). Operands come big endian in the WQE, memory is in host byte order, and so
// are results of 8 bytes; others are big endian, as all are in completion entries.
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"
#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// Plain ones are masked ones that mask nothing out.
struct Operation {
    bool swaps = false;
    std::uint32_t bytes = 0;  // 4 or 8; 0: the entry makes no sense
    std::size_t operand_unit = 0, result_unit = 0;
    std::uint64_t swap_or_add = 0, compare = 0;
    std::uint64_t swap_mask = ~std::uint64_t{0}, compare_mask = ~std::uint64_t{0};
    std::uint64_t field_ends = 0;
};

void read_swap(const WqeReader& wqe, Operation& operation) noexcept {
    if (operation.bytes == sizeof(std::uint32_t)) {
        const auto segment = wqe.read<mlx5::MaskedSwapSegment>(operation.operand_unit);
        operation.swap_or_add = segment.swap.native();
        operation.compare = segment.compare.native();
        operation.swap_mask = segment.swap_mask.native();
        operation.compare_mask = segment.compare_mask.native();
        return;
    }
    // The ring may end between operands and masks.
    const auto operands = wqe.read<mlx5::AtomicSegment>(operation.operand_unit);
    const auto masks = wqe.read<mlx5::AtomicSegment>(operation.operand_unit + 1);
    operation.swap_or_add = operands.swap_or_add.native();
    operation.compare = operands.compare.native();
    operation.swap_mask = masks.swap_or_add.native();
    operation.compare_mask = masks.compare.native();
    ++operation.result_unit;
}

void read_add(const WqeReader& wqe, Operation& operation) noexcept {
    if (operation.bytes == sizeof(std::uint32_t)) {
        const auto segment = wqe.read<mlx5::MaskedAddSegment>(operation.operand_unit);
        operation.swap_or_add = segment.add.native();
        operation.field_ends = segment.field_ends.native();
        return;
    }
    const auto segment = wqe.read<mlx5::MaskedAddSegment8>(operation.operand_unit);
    operation.swap_or_add = segment.add.native();
    operation.field_ends = segment.field_ends.native();
}

Operation read_operation(const WqeReader& wqe, const mlx5::ControlSegment& control,
                         std::size_t operand_unit) noexcept {
    const auto opcode = static_cast<Opcode>(mlx5::opcode_of(control));
    const std::uint8_t modifier = mlx5::modifier_of(control);
    Operation operation;
    operation.operand_unit = operand_unit;
    operation.result_unit = operand_unit + 1;
    operation.swaps = opcode == Opcode::compare_swap || opcode == Opcode::masked_compare_swap;
    if (mlx5::is_plain_atomic(opcode)) {
        const auto operands = wqe.read<mlx5::AtomicSegment>(operation.operand_unit);
        operation.bytes = modifier == 0 ? sizeof(std::uint64_t) : 0;
        operation.swap_or_add = operands.swap_or_add.native();
        operation.compare = operands.compare.native();
        return operation;
    }
    operation.bytes = modifier == mlx5::kMaskedModifier4   ? sizeof(std::uint32_t)
                      : modifier == mlx5::kMaskedModifier8 ? sizeof(std::uint64_t)
                                                           : 0;
    operation.swaps ? read_swap(wqe, operation) : read_add(wqe, operation);
    return operation;
}

// Field by field: carries reach a field's highest bit and no further.
template <class Value>
Value add_fields(Value value, Value addend, Value ends) noexcept {
    return static_cast<Value>(((value & ~ends) + (addend & ~ends)) ^ ((value ^ addend) & ends));
}

// Returns what was there before.
template <class Value>
std::uint64_t apply(const Operation& operation, std::byte* at) noexcept {
    using Word __attribute__((may_alias)) = Value;
    auto* const word = reinterpret_cast<Word*>(at);
    const auto operand = static_cast<Value>(operation.swap_or_add);
    const auto compare = static_cast<Value>(operation.compare);
    const auto compare_mask = static_cast<Value>(operation.compare_mask);
    const auto swap_mask = static_cast<Value>(operation.swap_mask);
    const auto ends = static_cast<Value>(operation.field_ends);
    before_store();
    if (!operation.swaps && ends == 0) return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
    Value before = __atomic_load_n(word, __ATOMIC_ACQUIRE), after = 0;
    do {
        if (!operation.swaps)
            after = add_fields(before, operand, ends);
        else if (((before ^ compare) & compare_mask) == 0)
            after = static_cast<Value>((before & ~swap_mask) | (operand & swap_mask));
        else
            return before;
    } while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return before;
}

// For memory that is not mapped here. The key and the address stay as they came: the owner
// translates them again.
RemoteAtomic for_peer(const Operation& operation,
                      const mlx5::RemoteAddressSegment& target) noexcept {
    RemoteAtomic there;
    there.address = target.address.native();
    there.key = target.key.native();
    there.bytes = static_cast<std::uint16_t>(operation.bytes);
    there.swaps = operation.swaps ? 1 : 0;
    there.swap_or_add = operation.swap_or_add;
    there.compare = operation.compare;
    there.swap_mask = operation.swap_mask;
    there.compare_mask = operation.compare_mask;
    there.field_ends = operation.field_ends;
    return there;
}

}  // namespace

SendEngine::Verdict SendEngine::atomic(Request& request) noexcept {
    const Operation operation = read_operation(request.wqe, request.control, first_unit_ + 1u);
    if (operation.bytes == 0) {
        shared_->failure.set("an atomic operation with opcode modifier {:#x}",
                             mlx5::modifier_of(request.control));
        return fail(request, Syndrome::local_queue_pair);
    }
    PieceList list;
    Syndrome syndrome = collect(request, operation.result_unit, Access::local_write, list);
    if (syndrome == kNoSyndrome && list.total != operation.bytes) {
        shared_->failure.set("an atomic operation returns {} bytes, its elements have {}",
                             operation.bytes, list.total);
        syndrome = Syndrome::local_length;
    }
    if (syndrome != kNoSyndrome) return fail(request, syndrome);
    RemoteRange range;
    syndrome = reach_word(request, operation.bytes, range);
    if (syndrome != kNoSyndrome) return fail(request, syndrome);
    if (range.mapped == nullptr) {
        const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(first_unit_);
        return atomic_at_peer(request, for_peer(operation, target), operation.result_unit);
    }
    keep_for_entry(request.result, request, operation.result_unit, list);
    const std::uint64_t before = operation.bytes == sizeof(std::uint64_t)
                                     ? apply<std::uint64_t>(operation, range.mapped)
                                     : apply<std::uint32_t>(operation, range.mapped);
    const bool big_endian =
        request.result.in_entry || (view_.big_endian_results & operation.bytes) != 0;
    scatter(list, 0, AtomicResult(before, operation.bytes, big_endian).data(), operation.bytes);
    request.result.bytes = operation.bytes;
    return Verdict::done;
}

// The peer's aligned word of this size.
Syndrome SendEngine::reach_word(const Request& request, std::uint32_t bytes,
                                RemoteRange& range) noexcept {
    const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(first_unit_);
    const Syndrome syndrome = remote_.reach(target.key.native(), target.address.native(), bytes,
                                            Access::remote_atomic, range);
    if (syndrome != kNoSyndrome) return syndrome;
    if (range.address % bytes != 0 ||
        (range.mapped != nullptr && reinterpret_cast<std::uintptr_t>(range.mapped) % bytes != 0)) {
        shared_->failure.set("atomic operation at {:#x}: not aligned to {} bytes", range.address,
                             bytes);
        return Syndrome::remote_invalid;
    }
    return kNoSyndrome;
}

}  // namespace verbatim::softnic

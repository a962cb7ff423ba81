// Operands come big endian in the entry; memory and result are in host order. Plain operations are
// masked ones that mask nothing out.
#include "atomic_request.hpp"

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::softnic {

using mlx5::Opcode;

namespace {

// Each returns the unit after the operands.
std::size_t read_swap(const WqeReader& wqe, std::size_t unit, RemoteAtomic& operation) noexcept {
    if (operation.bytes == sizeof(std::uint32_t)) {
        const auto segment = wqe.read<mlx5::MaskedSwapSegment>(unit);
        operation.swap_or_add = segment.swap.native();
        operation.compare = segment.compare.native();
        operation.swap_mask = segment.swap_mask.native();
        operation.compare_mask = segment.compare_mask.native();
        return unit + 1;
    }
    // The ring may end between operands and masks.
    const auto operands = wqe.read<mlx5::AtomicSegment>(unit);
    const auto masks = wqe.read<mlx5::AtomicSegment>(unit + 1);
    operation.swap_or_add = operands.swap_or_add.native();
    operation.compare = operands.compare.native();
    operation.swap_mask = masks.swap_or_add.native();
    operation.compare_mask = masks.compare.native();
    return unit + 2;
}

std::size_t read_add(const WqeReader& wqe, std::size_t unit, RemoteAtomic& operation) noexcept {
    if (operation.bytes == sizeof(std::uint32_t)) {
        const auto segment = wqe.read<mlx5::MaskedAddSegment>(unit);
        operation.swap_or_add = segment.add.native();
        operation.field_ends = segment.field_ends.native();
    } else {
        const auto segment = wqe.read<mlx5::MaskedAddSegment8>(unit);
        operation.swap_or_add = segment.add.native();
        operation.field_ends = segment.field_ends.native();
    }
    return unit + 1;
}

std::uint16_t word_of(std::uint8_t modifier) noexcept {
    if (modifier == mlx5::kMaskedModifier4) return sizeof(std::uint32_t);
    return modifier == mlx5::kMaskedModifier8 ? sizeof(std::uint64_t) : 0;
}

}  // namespace

AtomicRequest read_atomic(const SendRequest& request, std::size_t first_unit) noexcept {
    const Opcode opcode = request.opcode();
    const std::uint8_t modifier = mlx5::modifier_of(request.control);
    const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(first_unit);
    AtomicRequest found;
    RemoteAtomic& operation = found.operation;
    operation.address = target.address.native();
    operation.key = target.key.native();
    operation.swaps = opcode == Opcode::compare_swap || opcode == Opcode::masked_compare_swap;
    if (mlx5::is_plain_atomic(opcode)) {
        const auto operands = request.wqe.read<mlx5::AtomicSegment>(first_unit + 1);
        operation.bytes = modifier == 0 ? sizeof(std::uint64_t) : 0;
        operation.swap_or_add = operands.swap_or_add.native();
        operation.compare = operands.compare.native();
        found.result_unit = first_unit + 2;
        return found;
    }
    operation.bytes = word_of(modifier);
    found.result_unit = operation.swaps ? read_swap(request.wqe, first_unit + 1, operation)
                                        : read_add(request.wqe, first_unit + 1, operation);
    return found;
}

}  // namespace verbatim::softnic

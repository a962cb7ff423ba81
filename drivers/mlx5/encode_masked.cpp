// Masked atomics, and those of 4 bytes, which travel as masked ones that mask nothing out. Layout:
// PRM, "Extended Atomic Operations"; operands of 4 bytes fill one segment, a compare-and-swap of 8
// bytes two.
#include <array>

#include <verbatim/mlx5/encode.hpp>

#include "encode_special.hpp"

namespace verbatim::mlx5 {
namespace {

constexpr std::uint64_t half_words(std::uint64_t first, std::uint64_t second) noexcept {
    return word(be32(static_cast<std::uint32_t>(first)), be32(static_cast<std::uint32_t>(second)));
}

// Masked atomics also work on four bytes.
Errc check_masked(const WorkRequest& request, const SendLimits& limits) noexcept {
    if (request.elements.size() != 1 || !request.inline_payload.empty() || limits.max_elements == 0)
        return Errc::invalid_argument;
    const std::uint32_t bytes = request.elements[0].bytes;
    if ((bytes != 4 && bytes != 8) || request.remote_address % bytes != 0)
        return Errc::invalid_argument;
    return limits.masked_atomics ? Errc::ok : Errc::unsupported;
}

struct Operands {
    std::uint64_t swap_or_add, compare, compare_mask, swap_mask, field_ends;
};

// What is to be masked where the request says nothing of it: nothing.
Operands operands_of(const WorkRequest& request) noexcept {
    Operands operands{request.swap_or_add, request.compare, request.compare_mask, request.swap_mask,
                      request.field_ends};
    if (is_plain_atomic(request.opcode)) {
        operands.compare_mask = operands.swap_mask = ~std::uint64_t{0};
        operands.field_ends = 0;
    }
    return operands;
}

// Their segments in a WQE, of which masked_operand_units() count. Of 4 bytes: the low halves.
std::array<std::uint64_t, 4> masked_words(Opcode masked, std::uint32_t bytes,
                                          const Operands& operands) noexcept {
    const bool swaps = masked == Opcode::masked_compare_swap;
    if (bytes == sizeof(std::uint32_t)) {
        if (!swaps) return {half_words(operands.swap_or_add, operands.field_ends), 0, 0, 0};
        return {half_words(operands.swap_or_add, operands.compare),
                half_words(operands.swap_mask, operands.compare_mask), 0, 0};
    }
    if (!swaps) return {be64(operands.swap_or_add).raw(), be64(operands.field_ends).raw(), 0, 0};
    return {be64(operands.swap_or_add).raw(), be64(operands.compare).raw(),
            be64(operands.swap_mask).raw(), be64(operands.compare_mask).raw()};
}

std::uint64_t encode_masked(const WorkRequest& request, const WqeShape& shape, WqePosition position,
                            UnitCursor to) noexcept {
    const Opcode opcode = masked_opcode(request.opcode);
    const Element& element = request.elements[0];
    const std::uint8_t modifier =
        element.bytes == sizeof(std::uint32_t) ? kMaskedModifier4 : kMaskedModifier8;
    const std::uint64_t first = control_word(opcode, position.index, position.number, shape.units) |
                                be32(std::uint32_t{modifier} << 24).raw();
    const std::uint8_t fence = request.fence ? std::uint8_t{0} : position.pending_fence;
    to.put(first, flags_word(flags_of(request) | fence, 0));
    to.put(be64(request.remote_address).raw(), word(be32(request.remote_key), be32(0)));
    const auto words = masked_words(opcode, element.bytes, operands_of(request));
    to.put(words[0], words[1]);
    if (masked_operand_units(opcode, element.bytes) == 2) to.put(words[2], words[3]);
    to.put(element_word(element), be64(element.address).raw());
    return first;
}

}  // namespace

Errc check_special(const WorkRequest& request, const SendLimits& limits) noexcept {
    if (travels_masked(request)) return check_masked(request, limits);
    return is_key_update(request.opcode) ? check_key_update(request) : Errc::invalid_argument;
}

WqeShape special_shape_of(const WorkRequest& request) noexcept {
    WqeShape shape;
    if (travels_masked(request)) {
        const std::uint32_t bytes = request.elements.empty() ? 0 : request.elements[0].bytes;
        shape.payload_unit = 2 + masked_operand_units(masked_opcode(request.opcode), bytes);
        shape.units = shape.payload_unit + 1;
        return shape;
    }
    const bool opens = request.window != nullptr && request.window->bytes != 0;
    shape.units = kKeyUpdateUnits + (opens ? kTranslationBytes / kUnitBytes : 0);
    return shape;
}

std::uint64_t encode_special(const WorkRequest& request, const WqeShape& shape,
                             WqePosition position, UnitCursor to) noexcept {
    return travels_masked(request) ? encode_masked(request, shape, position, to)
                                   : encode_key_update(request, shape, position, to);
}

}  // namespace verbatim::mlx5

// Where an atomic operation's result lies. Pure; any thread.
#pragma once

#include <cstdint>

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>

namespace verbatim::mlx5 {

// Unit of its one element: behind control segment, address and operands.
inline std::uint32_t atomic_element_unit(const ControlSegment& control) noexcept {
    const bool two = static_cast<Opcode>(opcode_of(control)) == Opcode::masked_compare_swap &&
                     modifier_of(control) == kMaskedModifier8;
    return two ? 4 : 3;
}

}  // namespace verbatim::mlx5

// The two kinds of special requests. Cold.
#pragma once

#include <verbatim/mlx5/encode.hpp>

namespace verbatim::mlx5 {

Errc check_key_update(const WorkRequest& request) noexcept;
std::uint64_t encode_key_update(const WorkRequest& request, const WqeShape& shape,
                                WqePosition position, UnitCursor to) noexcept;

}  // namespace verbatim::mlx5

// The page: the unit in which x86-64 maps memory.
#pragma once

#include <cstddef>

namespace verbatim::softnic {

inline constexpr std::size_t kPageBytes = 4096;

}  // namespace verbatim::softnic

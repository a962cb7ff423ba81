// Limits that every work queue has, and checks of the addresses of its memory.
#pragma once

#include <cstdint>

namespace verbatim::mlx5 {

// The device addresses blocks by 16-bit counters; a full queue must still differ from an empty one.
inline constexpr std::uint32_t kMaxEntries = 1U << 15;

inline bool aligned(const volatile void* pointer, std::uintptr_t to) noexcept {
    return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

}  // namespace verbatim::mlx5

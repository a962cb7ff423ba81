// Poison fills freed memory of an arena in debug builds, and is looked for when the memory is taken
// again: a write after the end of an allocation, by this process or by a peer, ends the program
// there. Memory that was never taken is zero. Guard bytes fill what an allocation leaves of its
// last granule, and are looked at when it is freed. Threads: the owner of the block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbatim::poison {

#ifdef NDEBUG
inline constexpr bool kOn = false;
#else
inline constexpr bool kOn = true;
#endif

inline constexpr std::byte kFreed{0xdb};
inline constexpr std::byte kGuard{0xa7};
inline constexpr std::size_t kStep = 16;

inline void put(void* block, std::size_t bytes) noexcept {
    if constexpr (kOn) std::memset(block, static_cast<int>(kFreed), bytes);
}

// Ends the program where a granule is neither poisoned nor new.
inline void check(const void* block, std::size_t bytes, const char* arena) noexcept {
    if constexpr (!kOn) return;
    const auto* const first = static_cast<const std::byte*>(block);
    for (std::size_t at = 0; at < bytes; at += kStep) {
        const auto is_all = [&](std::byte value) {
            return std::all_of(first + at, first + at + kStep,
                               [=](std::byte one) { return one == value; });
        };
        if (is_all(kFreed) || is_all(std::byte{0})) continue;
        std::fprintf(stderr,
                     "verbatim: arena %s: the 16 bytes at %p were written after they were freed, "
                     "by this process or by a peer\n",
                     arena, static_cast<const void*>(first + at));
        std::abort();
    }
}

// Guard bytes behind `bytes` of a block of whole granules; none where they fill them.
inline std::size_t guard_bytes(std::size_t bytes) noexcept {
    return bytes == 0 ? kStep : (kStep - bytes % kStep) % kStep;
}

inline void put_guard(void* block, std::size_t bytes) noexcept {
    if constexpr (kOn)
        std::memset(static_cast<std::byte*>(block) + bytes, static_cast<int>(kGuard),
                    guard_bytes(bytes));
}

// Ends the program where one of them has changed.
inline void check_guard(const void* block, std::size_t bytes, const char* arena) noexcept {
    if constexpr (!kOn) return;
    const auto* const first = static_cast<const std::byte*>(block) + bytes;
    const auto* const last = first + guard_bytes(bytes);
    const auto* const wrong = std::find_if(first, last, [](auto one) { return one != kGuard; });
    if (wrong == last) return;
    std::fprintf(stderr,
                 "verbatim: arena %s: byte %zu of the %zu at %p was written, behind their end, or "
                 "more bytes were taken there than were freed\n",
                 arena, bytes + static_cast<std::size_t>(wrong - first), bytes, block);
    std::abort();
}

}  // namespace verbatim::poison

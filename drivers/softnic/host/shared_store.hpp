// Every store of this NIC's protocols into memory that another process maps goes through this
// header: key tables, channel words and records, and payload written into a peer's arena. In the
// fault tests' own build (VERBATIM_SOFTNIC_COUNT_STORES, linked only there) each store is counted
// and the process can be killed at the nth one; the normal build compiles to the plain stores. The
// two live in distinct inline namespaces, so that a mixed link fails instead of silently choosing
// one of them.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <verbatim/mlx5/doorbell.hpp>

namespace verbatim::softnic {

#ifdef VERBATIM_SOFTNIC_COUNT_STORES
inline namespace counted_stores {
// Counts one store; kills the process if it is the chosen one. Defined by the fault tests.
void before_store() noexcept;
inline constexpr bool kSplitCopies = true;
#else
inline namespace plain_stores {
inline void before_store() noexcept {}
inline constexpr bool kSplitCopies = false;
#endif

template <class T>
void store_release(std::atomic<T>& word, T value) noexcept {
    before_store();
    word.store(value, std::memory_order_release);
}

// For the thread sanitizer: a poller loads words that may be payload still on its way and discards
// what it read unless a later word says that all is there. No language knows a race that is
// discarded, so in that build words are stored as the hardware stores them anyway: whole. So are
// those loaded that an RDMA read finds, which the program stores meanwhile.
inline void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    const auto store = [&](auto zero) {
        using Word __attribute__((may_alias)) = decltype(zero);
        if (reinterpret_cast<std::uintptr_t>(from) % sizeof zero == 0)
            zero = __atomic_load_n(reinterpret_cast<const Word*>(from), __ATOMIC_RELAXED);
        else
            std::memcpy(&zero, from, sizeof zero);
        __atomic_store_n(reinterpret_cast<Word*>(to), zero, __ATOMIC_RELAXED);
        to += sizeof zero, from += sizeof zero, bytes -= sizeof zero;
    };
    while (bytes != 0)
        if (bytes >= 8 && reinterpret_cast<std::uintptr_t>(to) % 8 == 0)
            store(std::uint64_t{0});
        else
            store(std::uint8_t{0});
}

// Bytes without any order among themselves. The counting build stores them in two halves, so that a
// process can die between them.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    if constexpr (mlx5::kThreadSanitizer) return copy_words(to, from, bytes);
    if constexpr (kSplitCopies) {
        before_store();
        std::memcpy(to, from, bytes / 2);
        before_store();
        std::memcpy(to + bytes / 2, from + bytes / 2, bytes - bytes / 2);
        return;
    }
    std::memcpy(to, from, bytes);
}

// Copies past the caches, for writes so large that nothing of them would be found there: ordinary
// stores first read every line that they overwrite, a third of the traffic. The caller orders what
// it stores afterwards by mlx5::store_fence().
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t kLine = 64, kAhead = 512;
    const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
    copy_bytes(to, from, head);
    to += head, from += head, bytes -= head;
    if constexpr (!mlx5::kThreadSanitizer && !kSplitCopies)
        for (; bytes >= kLine; to += kLine, from += kLine, bytes -= kLine) {
            __builtin_prefetch(from + kAhead);
            __m128i line[kLine / sizeof(__m128i)];
            std::memcpy(line, from, kLine);
            for (std::size_t i = 0; i < std::size(line); ++i)
                _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, line[i]);
        }
    copy_bytes(to, from, bytes);
}

// One aligned store of T with release order, from unaligned source bytes.
template <class T>
void store_word(std::byte* to, const std::byte* from) noexcept {
    // The target may hold objects of any type.
    using Word __attribute__((may_alias)) = T;
    T value;
    std::memcpy(&value, from, sizeof value);
    before_store();
    __atomic_store_n(reinterpret_cast<Word*>(to), value, __ATOMIC_RELEASE);
}

// The last bytes of a write, at most one aligned 8-byte word: after everything before them, each
// piece as large as its alignment allows, so that 1, 2, 4 or 8 aligned bytes are one store.
inline void publish_tail(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 8) return store_word<std::uint64_t>(to, from);
    while (bytes != 0) {
        const auto aligned = std::size_t{1}
                             << std::countr_zero(reinterpret_cast<std::uintptr_t>(to) | 4);
        const std::size_t piece = std::min(aligned, std::bit_floor(bytes));
        if (piece == 4) {
            store_word<std::uint32_t>(to, from);
        } else if (piece == 2) {
            store_word<std::uint16_t>(to, from);
        } else {
            store_word<std::uint8_t>(to, from);
        }
        to += piece, from += piece, bytes -= piece;
    }
}

// How many trailing bytes of a write of `bytes` to `to` lie in the last aligned 8-byte word it
// touches.
inline std::size_t tail_bytes(const std::byte* to, std::size_t bytes) noexcept {
    const std::size_t past = (reinterpret_cast<std::uintptr_t>(to) + bytes) & 7;
    return std::min(bytes, past == 0 ? std::size_t{8} : past);
}

// A write as a poller of its last word may rely on: all other bytes first, then the last aligned 8
// bytes. (memcpy's non-temporal paths end with a store fence; ordinary stores are in order on
// x86-64; elsewhere the release store orders them.)
inline void write_in_order(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    const std::size_t tail = tail_bytes(to, bytes);
    if (bytes > tail) copy_bytes(to, from, bytes - tail);
    publish_tail(to + (bytes - tail), from + (bytes - tail), tail);
}

}  // inline namespace
}  // namespace verbatim::softnic

// Units hold a send WQE in registers while it is made. It starts as a constant image, gets its
// varying words, and is stored to the ring and to the device's register. It is never read back from
// memory. For AVX-512 a block is one register, for AVX two units are stored at once. All files of a
// program that include this must be compiled for the same machine. No state; any thread.
//
// All indexes are constants and nothing takes the address of a unit, not even a lambda: the
// compiler (g++ 12) then keeps them in registers.
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#else
#include <emmintrin.h>  // the other takes a second to compile
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <verbatim/mlx5/formats.hpp>

namespace verbatim::mlx5 {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Loads 16 bytes as two halves. A half that was just stored as 8 bytes is forwarded from the store
// buffer. One 16-byte load would wait until both halves have reached the cache (some 15 cycles).
inline __m128i load_halves(const void* from) noexcept {
    // Volatile, because compilers like to merge the two loads.
    using Word [[gnu::may_alias]] = long long;
    const auto* words = static_cast<const volatile Word*>(from);
    return _mm_set_epi64x(words[1], words[0]);
}

// The first word of a control segment.
inline std::uint64_t first_word_of(__m128i control) noexcept {
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(control));
}

// The first word of a WQE into a register, in one store.
inline void write_register_word(volatile std::byte* to, std::uint64_t word) noexcept {
    __atomic_store_n(reinterpret_cast<volatile std::uint64_t*>(to), word, __ATOMIC_RELAXED);
}
inline void write_register_word(volatile std::byte* to, __m128i control) noexcept {
    if constexpr (kThreadSanitizer) return write_register_word(to, first_word_of(control));
    using Half [[gnu::may_alias]] = double;
    *reinterpret_cast<volatile Half*>(to) = _mm_cvtsd_f64(_mm_castsi128_pd(control));
}

// One 64-byte building block held in registers.
struct Block {
    __m128i quarter[4];

    static Block load(const void* from) noexcept {
        const auto* bytes = static_cast<const std::byte*>(from);
        return {{load_halves(bytes), load_halves(bytes + 16), load_halves(bytes + 32),
                 load_halves(bytes + 48)}};
    }
    void store(std::byte* to) const noexcept {
        auto* quarters = reinterpret_cast<__m128i*>(to);
        for (int i = 0; i < 4; ++i) _mm_store_si128(quarters + i, quarter[i]);
    }
};

// For ThreadSanitizer, as atomic stores: an engine thread may read a register while its next half
// is written. Plain stores are as good on x86.
inline void write_register_words(volatile std::byte* to, const Block& block) noexcept {
    alignas(16) std::uint64_t words[8];
    block.store(reinterpret_cast<std::byte*>(words));
    auto* registers = reinterpret_cast<volatile std::uint64_t*>(to);
    for (int i = 0; i < 8; ++i) __atomic_store_n(registers + i, words[i], __ATOMIC_RELAXED);
}

// Ascending, as in every driver. If the write-combining buffer is evicted half-way, the device has
// seen the doorbell (first 8 bytes) and fetches the WQE from memory.
inline void write_register_block(volatile std::byte* to, const Block& block) noexcept {
    if constexpr (kThreadSanitizer) return write_register_words(to, block);
    // Volatile, because compilers may sort plain stores as they like.
    auto* quarters = reinterpret_cast<volatile __m128i*>(to);
    for (int i = 0; i < 4; ++i) quarters[i] = block.quarter[i];
}

// The image that Units start from: `kUnits` units and zeros up to whole blocks.
template <std::size_t kUnits>
struct alignas(64) UnitImage {
    static constexpr std::size_t kBlocks = (kUnits + 3) / 4;
    std::uint64_t words[kBlocks * 8] = {};
    // Masks of 4-byte words for AVX-512: of the first word, and of a remote address and 8 bytes of
    // payload. They are in memory because compilers compute each by two instructions, every time.
    std::uint16_t first_mask = 1;
    std::uint16_t write8_mask = 3 << 4 | 6 << 8;
};

#if defined(__AVX512BW__) && defined(__AVX512VL__)

template <std::size_t kUnits>
class Units {
  public:
    static constexpr std::uint32_t kBlocks = UnitImage<kUnits>::kBlocks;

    [[gnu::always_inline]] explicit Units(const UnitImage<kUnits>& image) noexcept
        : Units(image, std::make_index_sequence<kBlocks>{}) {}
    // The bits of the index (4 bytes) in the first word, which has zeros there.
    [[gnu::always_inline]] void set_index(const void* bits) noexcept {
        std::int32_t word;
        std::memcpy(&word, bits, sizeof word);
        block_[0] = _mm512_mask_or_epi32(block_[0], mask(image_->first_mask), block_[0],
                                         _mm512_set1_epi32(word));
    }
    template <std::size_t kWord>
    [[gnu::always_inline]] void set_word(std::uint64_t word) noexcept {
        block_[kWord / 8] =
            _mm512_mask_set1_epi64(block_[kWord / 8], 1 << kWord % 8, static_cast<long long>(word));
    }
    // 8 bytes behind the inline header that starts unit `kUnit`.
    template <std::size_t kUnit>
    [[gnu::always_inline]] void set_payload(std::uint64_t payload) noexcept {
        const __m512i bytes =
            _mm512_castsi128_si512(_mm_cvtsi64_si128(static_cast<long long>(payload)));
        block_[kUnit / 4] = _mm512_mask_expand_epi32(block_[kUnit / 4], 6 << kUnit % 4 * 4, bytes);
    }
    // set_word<2>() and set_payload<2>() at once.
    [[gnu::always_inline]] void set_address_and_payload(std::uint64_t address,
                                                        std::uint64_t payload) noexcept {
        const __m128i both =
            _mm_set_epi64x(static_cast<long long>(payload), static_cast<long long>(address));
        block_[0] = _mm512_mask_expand_epi32(block_[0], mask(image_->write8_mask),
                                             _mm512_castsi128_si512(both));
    }
    // `kBytes` bytes behind that header.
    template <std::size_t kUnit, std::size_t kBytes>
    [[gnu::always_inline]] void set_payload(const std::byte* payload) noexcept {
        set_payload_blocks<kUnit * 16 + 4, kBytes>(payload, std::make_index_sequence<kBlocks>{});
    }
    [[gnu::always_inline]] void store(std::byte* to) const noexcept {
        store_blocks(to, std::make_index_sequence<kBlocks>{});
    }
    [[gnu::always_inline]] void write_register(volatile std::byte* to) const noexcept {
        write_blocks(to, std::make_index_sequence<kBlocks>{});
    }
    std::uint64_t first_word() const noexcept {
        return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(block_[0])));
    }

  private:
    template <std::size_t... kIndex>
    [[gnu::always_inline]] Units(const UnitImage<kUnits>& image,
                                 std::index_sequence<kIndex...>) noexcept
        : image_(&image), block_{_mm512_load_si512(image.words + kIndex * 8)...} {}
    static __mmask16 mask(const std::uint16_t& from) noexcept {
        __mmask16 mask;
        asm("kmovw %1, %0" : "=Yk"(mask) : "m"(from));
        return mask;
    }
    template <std::size_t kOffset, std::size_t kBytes, std::size_t... kIndex>
    [[gnu::always_inline]] void set_payload_blocks(const std::byte* payload,
                                                   std::index_sequence<kIndex...>) noexcept {
        (set_part<kIndex, kOffset, kBytes>(payload), ...);
    }
    template <std::size_t kIndex, std::size_t kOffset, std::size_t kBytes>
    [[gnu::always_inline]] void set_part(const std::byte* payload) noexcept {
        constexpr std::size_t kFirst = std::clamp(kOffset, kIndex * 64, kIndex * 64 + 64);
        constexpr std::size_t kEnd = std::clamp(kOffset + kBytes, kIndex * 64, kIndex * 64 + 64);
        if constexpr (kFirst != kEnd) {
            constexpr std::uint64_t kMask = (~std::uint64_t{0} >> (64 - (kEnd - kFirst)))
                                            << (kFirst - kIndex * 64);
            // Bytes outside the mask are not accessed, so they may be unmapped.
            const auto from = reinterpret_cast<std::uintptr_t>(payload) + kIndex * 64 - kOffset;
            block_[kIndex] =
                _mm512_mask_loadu_epi8(block_[kIndex], kMask, reinterpret_cast<const void*>(from));
        }
    }
    template <std::size_t... kIndex>
    [[gnu::always_inline]] void store_blocks(std::byte* to,
                                             std::index_sequence<kIndex...>) const noexcept {
        (_mm512_store_si512(to + kIndex * 64, block_[kIndex]), ...);
    }
    template <std::size_t... kIndex>
    [[gnu::always_inline]] void write_blocks(volatile std::byte* to,
                                             std::index_sequence<kIndex...>) const noexcept {
        (write_block(to + kIndex * 64, block_[kIndex]), ...);
    }
    [[gnu::always_inline]] static void write_block(volatile std::byte* to, __m512i block) noexcept {
        if constexpr (kThreadSanitizer)
            write_register_words(to, std::bit_cast<Block>(block));
        else
            *reinterpret_cast<volatile __m512i*>(to) = block;
    }

    const UnitImage<kUnits>* image_;
    __m512i block_[kBlocks];
};

#else

template <std::size_t kUnits>
class Units {
  public:
    static constexpr std::uint32_t kBlocks = UnitImage<kUnits>::kBlocks;

    [[gnu::always_inline]] explicit Units(const UnitImage<kUnits>& image) noexcept
        : Units(image, std::make_index_sequence<kUnits>{}) {}
    // The bits of the index (4 bytes) in the first word, which has zeros there.
    [[gnu::always_inline]] void set_index(const void* bits) noexcept {
        std::int32_t word;
        std::memcpy(&word, bits, sizeof word);
        unit_[0] = _mm_or_si128(unit_[0], _mm_cvtsi32_si128(word));
    }
    template <std::size_t kWord>
    [[gnu::always_inline]] void set_word(std::uint64_t word) noexcept {
        const __m128i low = _mm_cvtsi64_si128(static_cast<long long>(word));
        __m128i& unit = unit_[kWord / 2];
        if constexpr (kWord % 2 == 0)
            unit =
                _mm_castpd_si128(_mm_shuffle_pd(_mm_castsi128_pd(low), _mm_castsi128_pd(unit), 2));
        else
            unit = _mm_unpacklo_epi64(unit, low);
    }
    // 8 bytes behind the inline header that starts unit `kUnit`, which has zeros there.
    template <std::size_t kUnit>
    [[gnu::always_inline]] void set_payload(std::uint64_t payload) noexcept {
        const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(payload));
        unit_[kUnit] = _mm_or_si128(_mm_slli_si128(bytes, 4), unit_[kUnit]);
    }
    // set_word<2>() and set_payload<2>() at once.
    [[gnu::always_inline]] void set_address_and_payload(std::uint64_t address,
                                                        std::uint64_t payload) noexcept {
        set_word<2>(address);
        set_payload<2>(payload);
    }
    // `kBytes` bytes, at least 16, behind that header.
    template <std::size_t kUnit, std::size_t kBytes>
    [[gnu::always_inline]] void set_payload(const std::byte* payload) noexcept {
        unit_[kUnit] = _mm_or_si128(_mm_slli_si128(load(payload), 4), unit_[kUnit]);
        set_rest<kUnit, kBytes>(payload, std::make_index_sequence<(kBytes + 3) / 16>{});
    }
    [[gnu::always_inline]] void store(std::byte* to) const noexcept {
        store_pairs(to, std::make_index_sequence<kBlocks * 2>{});
    }
    [[gnu::always_inline]] void write_register(volatile std::byte* to) const noexcept {
        write_blocks(to, std::make_index_sequence<kBlocks>{});
    }
    std::uint64_t first_word() const noexcept {
        return static_cast<std::uint64_t>(_mm_cvtsi128_si64(unit_[0]));
    }

  private:
    template <std::size_t... kIndex>
    [[gnu::always_inline]] Units(const UnitImage<kUnits>& image,
                                 std::index_sequence<kIndex...>) noexcept
        : unit_{_mm_load_si128(reinterpret_cast<const __m128i*>(image.words) + kIndex)...} {}
    static __m128i load(const std::byte* from) noexcept {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    }
    template <std::size_t kUnit, std::size_t kBytes, std::size_t... kBefore>
    [[gnu::always_inline]] void set_rest(const std::byte* payload,
                                         std::index_sequence<kBefore...>) noexcept {
        ((unit_[kUnit + kBefore + 1] = part<kBefore * 16 + 12, kBytes>(payload)), ...);
    }
    // 16 bytes from `kFrom` on; zeros behind the last.
    template <std::size_t kFrom, std::size_t kBytes>
    [[gnu::always_inline]] static __m128i part(const std::byte* payload) noexcept {
        if constexpr (kFrom + 16 <= kBytes) {
            return load(payload + kFrom);
        } else if constexpr (kFrom + sizeof(std::int32_t) == kBytes) {
            std::int32_t last;
            std::memcpy(&last, payload + kFrom, sizeof last);
            return _mm_cvtsi32_si128(last);
        } else {
            return _mm_srli_si128(load(payload + kBytes - 16), kFrom + 16 - kBytes);
        }
    }
    // Bytes behind the last unit are not used; they are written to the register so that its lines
    // are whole.
    template <std::size_t kIndex>
    [[gnu::always_inline]] __m128i at() const noexcept {
        return unit_[std::min(kIndex, kUnits - 1)];
    }
    template <std::size_t... kPair>
    [[gnu::always_inline]] void store_pairs(std::byte* to,
                                            std::index_sequence<kPair...>) const noexcept {
        (put<kPair>(to), ...);
    }
    template <std::size_t kPair>
    [[gnu::always_inline]] void put(std::byte* to) const noexcept {
#if defined(__AVX__)
        _mm256_store_si256(reinterpret_cast<__m256i*>(to) + kPair, pair<kPair>());
#else
        put_unit<kPair * 2>(to);
        put_unit<kPair * 2 + 1>(to);
#endif
    }
    // The ring keeps what it had behind the last unit.
    template <std::size_t kUnit>
    [[gnu::always_inline]] void put_unit(std::byte* to) const noexcept {
        if constexpr (kUnit < kUnits)
            _mm_store_si128(reinterpret_cast<__m128i*>(to) + kUnit, unit_[kUnit]);
    }
    template <std::size_t... kIndex>
    [[gnu::always_inline]] void write_blocks(volatile std::byte* to,
                                             std::index_sequence<kIndex...>) const noexcept {
        (write_block<kIndex>(to + kIndex * 64), ...);
    }
    template <std::size_t kIndex>
    [[gnu::always_inline]] void write_block(volatile std::byte* to) const noexcept {
#if defined(__AVX__)
        if constexpr (!kThreadSanitizer) {
            auto* halves = reinterpret_cast<volatile __m256i*>(to);
            halves[0] = pair<kIndex * 2>();
            halves[1] = pair<kIndex * 2 + 1>();
            return;
        }
#endif
        write_register_block(to, {{at<kIndex * 4>(), at<kIndex * 4 + 1>(), at<kIndex * 4 + 2>(),
                                   at<kIndex * 4 + 3>()}});
    }
#if defined(__AVX__)
    template <std::size_t kPair>
    [[gnu::always_inline]] __m256i pair() const noexcept {
        return _mm256_set_m128i(at<kPair * 2 + 1>(), at<kPair * 2>());
    }
#endif

    __m128i unit_[kUnits];
};

#endif

}  // namespace verbatim::mlx5

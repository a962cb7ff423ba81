// CRC-32 by eight tables, and by carry-less multiplication.
#include "crc32.hpp"

#include <immintrin.h>

#include <array>
#include <cstring>

namespace verbatim::softnic {
namespace {

constexpr std::uint32_t kCrcPolynomial = 0xedb88320;  // reflected

// A register times x.
constexpr std::uint32_t crc_step(std::uint32_t crc) noexcept {
    return (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
}

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables() noexcept {
    CrcTables tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = crc_step(crc);
        tables[0][i] = crc;
    }
    for (std::size_t table = 1; table < tables.size(); ++table)
        for (std::size_t i = 0; i < 256; ++i) {
            const std::uint32_t before = tables[table - 1][i];
            tables[table][i] = (before >> 8) ^ tables[0][before & 0xff];
        }
    return tables;
}
constexpr CrcTables kCrcTables = make_crc_tables();

// The register behind these bytes. Eight bytes a step, or four: each table is the effect of a byte
// that so many bytes follow.
std::uint32_t crc_by_tables(std::uint32_t crc, const std::byte* bytes, std::size_t count) noexcept {
    const auto step = [&]<class Word>(Word word) {
        std::memcpy(&word, bytes, sizeof word);
        word ^= crc;
        crc = 0;
        for (std::size_t i = 0; i < sizeof word; ++i)
            crc ^= kCrcTables[sizeof word - 1 - i][(word >> (8 * i)) & 0xff];
        count -= sizeof word, bytes += sizeof word;
    };
    while (count >= sizeof(std::uint64_t)) step(std::uint64_t{});
    if (count >= sizeof(std::uint32_t)) step(std::uint32_t{});
    for (; count != 0; --count, ++bytes)
        crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<std::uint32_t>(*bytes)) & 0xff];
    return crc;
}

// Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel, 2009). Sixteen bytes are a polynomial of degree 127, whose first bit is the
// highest. Times x^d, modulo the CRC's polynomial, they may be added to the bytes d bits behind, in
// place of themselves. Their halves are multiplied apart, by remainders of 32 bits. A product of
// reflected factors is shifted by one bit, and one of 64 by 32 bits lies 32 bits higher.
constexpr std::uint64_t crc_power(unsigned exponent) noexcept {
    std::uint32_t power = 0x80000000;  // one
    for (; exponent != 0; --exponent) power = crc_step(power);
    return std::uint64_t{power} << 1;
}

using Vector = __m128i;
constexpr std::size_t kVectorBytes = sizeof(Vector), kVectorsFolded = 4;
constexpr std::size_t kLeastFolded = kVectorBytes * kVectorsFolded;

// Factors of both halves for a distance of so many bits.
template <unsigned Bits>
[[gnu::target("pclmul"), gnu::always_inline]] inline Vector fold(Vector from,
                                                                 Vector onto) noexcept {
    constexpr std::uint64_t kFirst = crc_power(Bits + 32), kSecond = crc_power(Bits - 32);
    const Vector factors =
        _mm_set_epi64x(static_cast<long long>(kSecond), static_cast<long long>(kFirst));
    const Vector first = _mm_clmulepi64_si128(from, factors, 0x00);
    const Vector second = _mm_clmulepi64_si128(from, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), onto);
}

Vector load(const std::byte* from) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const Vector*>(from));
}

// As crc_by_tables(), of kLeastFolded bytes or more. What is left in the end is divided by tables.
[[gnu::target("pclmul")]] std::uint32_t crc_by_folding(std::uint32_t crc, const std::byte* bytes,
                                                       std::size_t count) noexcept {
    constexpr unsigned kOne = 8 * kVectorBytes, kAll = 8 * kLeastFolded;
    Vector folded[kVectorsFolded];
    for (std::size_t i = 0; i < kVectorsFolded; ++i) folded[i] = load(bytes + i * kVectorBytes);
    folded[0] = _mm_xor_si128(folded[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
    bytes += kLeastFolded, count -= kLeastFolded;
    for (; count >= kLeastFolded; bytes += kLeastFolded, count -= kLeastFolded)
        for (std::size_t i = 0; i < kVectorsFolded; ++i)
            folded[i] = fold<kAll>(folded[i], load(bytes + i * kVectorBytes));
    Vector rest = folded[0];
    for (std::size_t i = 1; i < kVectorsFolded; ++i) rest = fold<kOne>(rest, folded[i]);
    for (; count >= kVectorBytes; bytes += kVectorBytes, count -= kVectorBytes)
        rest = fold<kOne>(rest, load(bytes));
    std::array<std::byte, kVectorBytes> last;
    _mm_storeu_si128(reinterpret_cast<Vector*>(last.data()), rest);
    return crc_by_tables(crc_by_tables(0, last.data(), last.size()), bytes, count);
}

bool look_for_multiplication() noexcept {
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") != 0;
}
// Before it is known, tables do.
const bool kMultiplies = look_for_multiplication();

}  // namespace

std::uint32_t crc32(std::uint32_t crc, const std::byte* bytes, std::size_t count) noexcept {
    const bool folds = count >= kLeastFolded && kMultiplies;
    return ~(folds ? crc_by_folding(~crc, bytes, count) : crc_by_tables(~crc, bytes, count));
}

std::uint32_t crc32_by_tables(std::uint32_t crc, const std::byte* bytes,
                              std::size_t count) noexcept {
    return ~crc_by_tables(~crc, bytes, count);
}

bool crc32_multiplies() noexcept { return kMultiplies; }

}  // namespace verbatim::softnic

// Big-endian integers hold the values that a device reads or writes. They are types of their own,
// so a missing or doubled conversion does not compile. Trivially copyable, same size and alignment
// as the plain integer.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace verbatim::mlx5 {

// std::byteswap is C++23. Both compilers turn this into one instruction.
constexpr std::uint16_t byteswap(std::uint16_t value) noexcept { return __builtin_bswap16(value); }
constexpr std::uint32_t byteswap(std::uint32_t value) noexcept { return __builtin_bswap32(value); }
constexpr std::uint64_t byteswap(std::uint64_t value) noexcept { return __builtin_bswap64(value); }

template <typename T>
class BigEndian {
  public:
    using value_type = T;

    BigEndian() = default;
    // Explicit both ways: the place where byte order changes stays visible.
    constexpr explicit BigEndian(T native) noexcept : raw_(convert(native)) {}
    constexpr T native() const noexcept { return convert(raw_); }

    // The stored bit pattern as an integer, for code that composes whole words.
    constexpr T raw() const noexcept { return raw_; }
    static constexpr BigEndian from_raw(T raw) noexcept {
        BigEndian result;
        result.raw_ = raw;
        return result;
    }

    friend constexpr bool operator==(BigEndian, BigEndian) noexcept = default;

  private:
    static constexpr T convert(T value) noexcept {
        if constexpr (std::endian::native == std::endian::little) return byteswap(value);
        return value;
    }
    T raw_ = 0;
};

using be16 = BigEndian<std::uint16_t>;
using be32 = BigEndian<std::uint32_t>;
using be64 = BigEndian<std::uint64_t>;

static_assert(std::is_trivially_copyable_v<be64> && std::is_standard_layout_v<be64>);
static_assert(sizeof(be16) == 2 && sizeof(be32) == 4 && sizeof(be64) == 8);
static_assert(be32(0x01020304).native() == 0x01020304 && be32::from_raw(be32(7).raw()) == be32(7));

}  // namespace verbatim::mlx5

// The table of times.
#include "not_ready_time.hpp"

#include <array>

namespace verbatim::softnic {
namespace {

// In units of 10 us, code 1 first; code 0 is the longest one.
constexpr std::array<std::uint32_t, 31> kNotReadyTimes{
    1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,  256,
    384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr std::uint32_t kLongest = 65536;
constexpr std::chrono::nanoseconds kUnit = std::chrono::microseconds(10);
constexpr std::uint8_t kCodeMask = 31;

}  // namespace

std::chrono::nanoseconds not_ready_time(std::uint8_t code) noexcept {
    code &= kCodeMask;
    return kUnit * (code == 0 ? kLongest : kNotReadyTimes[code - 1u]);
}

std::uint8_t not_ready_code(std::chrono::nanoseconds time) noexcept {
    for (std::uint8_t code = 1; code <= kCodeMask; ++code)
        if (time <= not_ready_time(code)) return code;
    return 0;
}

}  // namespace verbatim::softnic

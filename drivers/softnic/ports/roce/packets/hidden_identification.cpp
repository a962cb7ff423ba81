// The register of the checksum, turned back byte by byte.
#include "hidden_identification.hpp"

#include <array>

namespace verbatim::softnic {
namespace {

// By the highest byte of a register: the lowest one of the register before a zero byte, and what
// it had made of the rest.
struct StepBack {
    std::uint32_t low = 0, table = 0;
};

constexpr std::array<StepBack, 256> make_steps_back() noexcept {
    constexpr std::uint32_t kPolynomial = 0xedb88320;  // reflected
    std::array<StepBack, 256> steps{};
    for (std::uint32_t low = 0; low < steps.size(); ++low) {
        std::uint32_t crc = low;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
        steps[crc >> 24] = {low, crc};
    }
    return steps;
}
constexpr std::array<StepBack, 256> kStepsBack = make_steps_back();

}  // namespace

// A register that takes a byte does what one does that takes a zero byte, and had that byte added
// before: so what is left before two bytes are the bytes themselves.
std::optional<std::uint16_t> hidden_identification(std::uint32_t difference,
                                                   std::size_t behind) noexcept {
    constexpr std::size_t kIdentification = 2;
    std::uint32_t crc = difference;
    for (std::size_t i = 0; i != behind + kIdentification; ++i) {
        const StepBack& step = kStepsBack[crc >> 24];
        crc = (crc ^ step.table) << 8 | step.low;
    }
    if (crc > 0xffff) return std::nullopt;
    return static_cast<std::uint16_t>((crc & 0xff) << 8 | crc >> 8);
}

}  // namespace verbatim::softnic

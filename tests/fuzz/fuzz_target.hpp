// What every fuzz target provides. Built with clang's -fsanitize=fuzzer it is searched by
// libFuzzer; built with replay_main.cpp it runs a fixed number of mutations of its seeds, the same
// ones on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

// Well-formed inputs to start from.
std::vector<std::vector<std::byte>> fuzz_seeds();

namespace verbatim::fuzz {

// Stops the program where a target finds what must not be.
inline void require(bool condition) {
    if (!condition) __builtin_trap();
}

// Reads numbers and bytes off the front of an input; zeros and nothing when it is used up.
class Input {
  public:
    Input(const std::uint8_t* data, std::size_t bytes)
        : rest_(reinterpret_cast<const std::byte*>(data), bytes) {}
    std::uint64_t number(std::size_t bytes) {
        std::uint64_t value = 0;
        for (const std::byte byte : take(bytes))
            value = value << 8 | std::to_integer<unsigned>(byte);
        return value;
    }
    std::span<const std::byte> take(std::size_t bytes) {
        const auto taken = rest_.first(bytes < rest_.size() ? bytes : rest_.size());
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    std::size_t left() const { return rest_.size(); }

  private:
    std::span<const std::byte> rest_;
};

}  // namespace verbatim::fuzz

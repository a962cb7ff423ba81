// A modulus divides many numbers by the same one, without a division for each: the buckets of a
// table.
#pragma once

#include <cstdint>

namespace verbatim::objects {

class Modulus {
  public:
    // `by`: from 1 to 2^63.
    explicit Modulus(std::uint64_t by) noexcept : by_(by), inverse_(~std::uint64_t{0} / by) {}

    // The quotient is right or one too low: the inverse is 2^64 / by, less one at most.
    std::uint64_t of(std::uint64_t number) const noexcept {
        const auto quotient = static_cast<std::uint64_t>((Wide{number} * inverse_) >> 64);
        const std::uint64_t rest = number - quotient * by_;
        return rest >= by_ ? rest - by_ : rest;
    }

  private:
    __extension__ using Wide = unsigned __int128;

    std::uint64_t by_;
    std::uint64_t inverse_;
};

}  // namespace verbatim::objects

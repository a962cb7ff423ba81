// One operation of a case after the other, as a work request: what every subject posts, each in its
// own way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/mlx5/encode.hpp>

#include "subjects.hpp"

namespace verbatim::bench {

inline constexpr std::uint64_t kRemoteAddress = 0x7f0000000000;
inline constexpr std::uint64_t kLocalAddress = 0x560000000000;
inline constexpr std::uint32_t kRemoteKey = 0x1234, kLocalKey = 0x77, kElementBytes = 64;

// Address and payload of operation number `i`: both differ from the one before.
constexpr std::uint64_t remote_address(std::uint64_t i) { return kRemoteAddress + i * 8; }
constexpr std::uint64_t local_address(std::uint64_t i) { return kLocalAddress + i * 64; }

class Operation {
  public:
    explicit Operation(const PostCase& of)
        : inline_bytes_(of.inline_bytes), elements_(of.elements), moves_(of.moves) {
        request_.opcode = of.opcode;
        request_.remote_key = kRemoteKey;
        for (std::uint32_t k = 0; k < memory_.size(); ++k)
            memory_[k] = {local_address(k), kElementBytes, kLocalKey};
    }
    [[gnu::always_inline]] const mlx5::WorkRequest& number(std::uint64_t i, bool signaled) {
        request_.signaled = signaled;
        request_.id = i;
        request_.remote_address = remote_address(i);
        std::memcpy(payload_.data(), &i, sizeof i);
        request_.inline_payload = std::span(payload_).first(inline_bytes_);
        if (moves_)
            for (std::uint32_t k = 0; k < elements_; ++k) memory_[k].address = local_address(i + k);
        request_.elements = std::span(memory_).first(elements_);
        return request_;
    }
    std::span<const std::byte> payload(std::uint64_t i) {
        std::memcpy(payload_.data(), &i, sizeof i);
        return std::span(payload_).first(inline_bytes_);
    }
    // How many of them change.
    std::uint32_t moving_elements() const { return moves_ ? elements_ : 0; }
    bool has_payload() const { return inline_bytes_ != 0; }
    bool has_remote_address() const { return mlx5::names_remote_memory(request_.opcode); }
    // Of each of them in the ring.
    std::uint32_t blocks() { return mlx5::shape_of(number(0, true)).blocks(); }

  private:
    mlx5::WorkRequest request_;
    std::uint32_t inline_bytes_, elements_;
    bool moves_;
    std::array<std::byte, 64> payload_{};
    std::array<mlx5::Element, 10> memory_{};
};

}  // namespace verbatim::bench

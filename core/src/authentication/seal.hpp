// Seals show that a frame is the peer's, unchanged, and in its place among the frames of its
// direction (docs/authentication.md). Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>

#include "secret_key.hpp"

namespace verbatim {

class Seal {
  public:
    static constexpr std::size_t kBytes = SecretKey::kBytes;

    // `key`: of the direction.
    explicit Seal(const SecretKey::Code& key) noexcept : key_(key) {}
    ~Seal();
    Seal(const Seal&) = delete;
    Seal& operator=(const Seal&) = delete;

    // Of the next frame, which is `bytes` and then this.
    SecretKey::Code next(std::span<const std::byte> bytes) noexcept;
    // The next frame, its seal included, is good.
    bool check_next(std::span<const std::byte> frame) noexcept;

  private:
    SecretKey::Code key_;
    std::uint64_t number_ = 0;  // of the next frame
};

// Of the two directions of a stream.
struct Seals {
    Seal outgoing, incoming;
};

}  // namespace verbatim

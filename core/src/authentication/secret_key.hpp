// A secret key authenticates connections: both sides have it, and neither says it
// (docs/authentication.md). Threads: any; it does not change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace verbatim {

class SecretKey {
  public:
    static constexpr std::size_t kBytes = 32;
    static constexpr std::size_t kLabelBytes = 32;
    using Code = std::array<std::byte, kBytes>;

    // The key that a file holds: 32 bytes, or those as hexadecimal digits or base64. Throws
    // Error(permission_denied): others than its owner may read it, or this process may not.
    // Error(config_error): it is no file, or holds no key. Error(out_of_memory).
    static std::shared_ptr<const SecretKey> from_file(const std::string& path);
    // Throws Error(out_of_memory).
    explicit SecretKey(std::span<const std::byte, kBytes> bytes);

    // Keyed BLAKE2b of the label, padded to kLabelBytes, and the bytes.
    Code code_of(std::string_view label, std::span<const std::byte> bytes) const noexcept;

  private:
    struct Freed {
        void operator()(std::byte* memory) const noexcept;
    };
    // Locked, left out of core dumps, wiped at its end.
    std::unique_ptr<std::byte[], Freed> bytes_;
};

// Compares in a time that does not depend on the bytes.
bool is_same(std::span<const std::byte, SecretKey::kBytes> one,
             std::span<const std::byte, SecretKey::kBytes> other) noexcept;

// 32 bytes that nobody can foresee.
SecretKey::Code draw_nonce();

}  // namespace verbatim

// Keyed hashes of numbered frames.
#include "seal.hpp"

#include <sodium.h>

namespace verbatim {

Seal::~Seal() { sodium_memzero(key_.data(), key_.size()); }

SecretKey::Code Seal::next(std::span<const std::byte> bytes) noexcept {
    std::array<unsigned char, sizeof number_> number;
    for (std::size_t i = 0; i < number.size(); ++i)
        number[i] = static_cast<unsigned char>(number_ >> (8 * i) & 0xff);
    ++number_;
    SecretKey::Code code;
    crypto_generichash_state state;
    crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(key_.data()),
                            key_.size(), code.size());
    crypto_generichash_update(&state, number.data(), number.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
    crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(code.data()), code.size());
    sodium_memzero(&state, sizeof state);
    return code;
}

bool Seal::check_next(std::span<const std::byte> frame) noexcept {
    if (frame.size() < kBytes) return false;
    return is_same(next(frame.first(frame.size() - kBytes)), frame.last<kBytes>());
}

}  // namespace verbatim

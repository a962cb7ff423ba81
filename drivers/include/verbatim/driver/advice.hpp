// Advice about an unknown word names the one that was probably meant, or all that are known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace verbatim {

// "did you mean X?", or "known are: X, Y".
std::string advice(std::string_view word, std::span<const std::string_view> known);

}  // namespace verbatim

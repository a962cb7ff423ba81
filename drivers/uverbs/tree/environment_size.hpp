// A size that the environment sets, as users write it ("64K"). Control path.
#pragma once

#include <cstdint>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/quantity.hpp>

namespace verbatim::uverbs {

// `variable`: the name of what holds `text`; `allowed`: what `allows` is true of, in words. Throws
// Error(config_error).
inline std::int64_t environment_size(const char* variable, const char* text,
                                     bool (*allows)(std::int64_t) noexcept, const char* allowed) {
    const auto bytes = parse_size(text);
    if (!bytes || !allows(*bytes))
        throw Error(Errc::config_error, variable, fmt::format("{} is not allowed", text),
                    fmt::format("it must be {}", allowed));
    return *bytes;
}

}  // namespace verbatim::uverbs

// Watches of a queue pair, which tell telemetry of a few of its requests: of the next one that is
// posted, and of one that retires. Threads: the lane's.
#pragma once

#include <cstdint>

namespace verbatim {

// Is told of the next ordinary request of a send path, once. Until then its owner knows that
// nothing was posted. A path that is watched costs no instruction more than another.
struct PostWatch {
    // Before the request is posted. May not post, but may watch again.
    void (*posts)(PostWatch& watch) noexcept = nullptr;
};

// Is told once that the request of this number has retired.
struct RetiredWatch {
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::uint64_t number = kNone;
    // `failed`: it, or one before it, did.
    void (*retired)(RetiredWatch& watch, bool failed) noexcept = nullptr;
};

}  // namespace verbatim

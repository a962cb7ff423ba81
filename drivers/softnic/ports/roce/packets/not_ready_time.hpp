// The time codes of RNR NAKs: how long a requester is to wait for a receive (InfiniBand
// Architecture Specification, volume 1, table 45). Threads: any.
#pragma once

#include <chrono>
#include <cstdint>

namespace verbatim::softnic {

std::chrono::nanoseconds not_ready_time(std::uint8_t code) noexcept;
// The shortest one that is not shorter; the longest one for what is longer.
std::uint8_t not_ready_code(std::chrono::nanoseconds time) noexcept;

}  // namespace verbatim::softnic

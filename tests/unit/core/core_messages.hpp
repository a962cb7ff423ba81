// Messages of connections as texts, and a ring so small that a test fills it.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

inline Config small_ring() {
    Config config = small_config();
    config.ring.bytes = 4096;
    return config;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}
inline std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.payload().data()), message.payload().size()};
}

}  // namespace verbatim::test

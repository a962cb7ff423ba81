// The first bytes of a stream: the dialling side names both queue pairs, the other one welcomes it
// or says why not. By its token, which only a peer's address tells, a stream is bound to one queue
// pair.
#pragma once

#include <array>
#include <cstdint>

namespace verbatim::softnic {

using StreamToken = std::array<std::uint8_t, 16>;

inline constexpr std::uint64_t kStreamMagic = 0x3130307063746276;  // "vbtcp001"
inline constexpr std::uint32_t kStreamVersion = 1;

struct StreamHello {
    std::uint64_t magic = kStreamMagic;
    std::uint32_t version = kStreamVersion;
    std::uint32_t from_number = 0;
    StreamToken to{}, from{};
};
static_assert(sizeof(StreamHello) == 48);

enum class StreamStatus : std::uint32_t { welcome = 0, other_version = 1, unknown = 2 };

struct StreamWelcome {
    std::uint64_t magic = kStreamMagic;
    std::uint32_t version = kStreamVersion;
    StreamStatus status = StreamStatus::welcome;
};
static_assert(sizeof(StreamWelcome) == 16);

}  // namespace verbatim::softnic

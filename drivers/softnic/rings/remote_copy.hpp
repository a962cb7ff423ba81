// A write into, or a read from, memory of a peer that this process has neither mapped nor may
// attach to: it crosses the ring in pieces, and the peer copies them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "channel.hpp"

namespace verbatim::softnic {

// Payload of such a record; the bytes to be written follow it.
struct RemoteCopy {
    std::uint64_t address = 0;  // as the key counts
    std::uint32_t key = 0;
    std::uint32_t bytes = 0;  // of a read, whose answer goes behind this
};
static_assert(sizeof(RemoteCopy) == kQuestionBytes && std::is_trivially_copyable_v<RemoteCopy>);

}  // namespace verbatim::softnic

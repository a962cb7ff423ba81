// A lent offer tells the peer where bytes lie that it may read: `u64` id, `u64` tag, the extents.
// Read out of a message, nothing in it is believed but its form: a lie in it is a failed read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <verbatim/core/remote_span.hpp>

namespace verbatim {

struct LentOffer {
    // Kinds of messages, on each channel of a layer that lends.
    static constexpr std::uint8_t kLent = 2, kRead = 3;
    // That a peer may have open on a channel, and parts of one: they fit into every ring.
    static constexpr std::size_t kMostOpen = 16, kMostExtents = 32;
    struct Head {
        std::uint64_t id = 0, tag = 0;
    };

    Head head;
    std::vector<RemoteExtent> extents;
    std::size_t bytes = 0;  // in all
    std::size_t taken = 0;  // leading bytes that were read

    // Nothing: no offer. Throws std::bad_alloc.
    static std::optional<LentOffer> parse(std::span<const std::byte> message);
    // The bytes behind those taken that lie together, `most` at most.
    RemoteExtent rest(std::size_t most) const noexcept;
    std::size_t left() const noexcept { return bytes - taken; }
};

}  // namespace verbatim

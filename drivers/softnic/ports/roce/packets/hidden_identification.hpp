// The IP identification of a packet, which sockets hide, found by its checksum. CRCs are linear:
// what the identification changes in the checksum depends on it and on the packet's length alone.
// Threads: any; nothing changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbatim::softnic {

// `difference`: of the packet's checksum and the one that it would have with identification 0.
// `behind`: bytes that the checksum covers behind the identification. Returns the identification
// that makes this difference; none: no one does, so the packet was changed. One of 65536 changed
// packets passes.
std::optional<std::uint16_t> hidden_identification(std::uint32_t difference,
                                                   std::size_t behind) noexcept;

}  // namespace verbatim::softnic

// Send counts are what a message ring has sent, for telemetry (docs/telemetry.md). The frequent
// ones cost one addition each; numbers that positions or others tell are not counted.
// Threads: the lane's.
#pragma once

#include <cstdint>

namespace verbatim {

struct SendCounts {
    // Of RingSender::try_send(): whole messages, fragments and ended keys.
    std::uint64_t records = 0, record_bytes = 0;
    // Messages in batches, and claims that were sent.
    std::uint64_t batched = 0, batched_bytes = 0, batches = 0;
    std::uint64_t claims = 0, claimed_bytes = 0;
    // Of the records above.
    std::uint64_t fragments = 0, fragmented = 0, ended_keys = 0, ended_key_bytes = 0;
    std::uint64_t pads = 0, credits = 0;
    std::uint64_t would_block = 0;  // calls that found no room
};

}  // namespace verbatim

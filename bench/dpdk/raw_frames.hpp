// Frames by DPDK's own calls: the floor.
#pragma once

#include "two_processes.hpp"

namespace verbatim::bench {

// Microseconds one way of frames as long as those of an 8-byte message, there and back.
void ping_pong_frames(DpdkSide& side);

}  // namespace verbatim::bench

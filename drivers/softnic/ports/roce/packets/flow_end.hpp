// One end of a flow: where its packets arrive, and how they are numbered.
#pragma once

#include <cstdint>

#include "../../tcp/meeting/stream_socket.hpp"

namespace verbatim::softnic {

struct FlowEnd {
    StreamPlace place;
    std::uint32_t queue_pair = 0;
    std::uint32_t first_sequence = 0;  // PSN of its first packet
};

}  // namespace verbatim::softnic

// What the ports over wires of one device share. Control path; threads: any.
#pragma once

#include "../ports/roce/back_end/packet_service.hpp"
#include "../ports/roce/foreign/roce_endpoint.hpp"
#include "../ports/tcp/meeting/stream_service.hpp"

namespace verbatim::softnic {

struct WireServices {
    StreamService streams;
    PacketService packets;
    RoceEndpoints endpoints{};
};

}  // namespace verbatim::softnic

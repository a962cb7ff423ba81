// A packet socket is the unprivileged UDP socket of the udp port. It is not connected: so IPv4
// identification stays 0, and the checksum of packets can be computed before (docs/roce-port.md).
// Control path.
#pragma once

#include "../../../host/descriptor.hpp"
#include "../../tcp/meeting/stream_socket.hpp"

namespace verbatim::softnic {

// A socket at the address; the kernel chooses the port, which is stored. Throws
// Error(device_error).
Descriptor open_packet_socket(StreamPlace& place);
// The path MTU that the interface of this address carries, log2.
unsigned mtu_log2_at(const StreamPlace& place) noexcept;

}  // namespace verbatim::softnic

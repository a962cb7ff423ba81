// A probe asks whether packets reach the peer, before its port is chosen: firewalls may stop UDP
// where they let TCP pass. Control path.
#pragma once

#include "../../../host/descriptor.hpp"
#include "../../../host/local_socket.hpp"
#include "../packets/flow_end.hpp"

namespace verbatim::softnic {

// Asks the peer by packets until it answers, and answers the peer's probes meanwhile. The peer does
// the same, or has its flow already, which answers. False: nothing came for a quarter of a second,
// or the peer has closed its socket. A peer that was heard is waited for longer: its processes may
// be late, and it may have taken this side's answer for granted. `socket`: of open_packet_socket().
bool packets_reach(const Descriptor& socket, const FlowEnd& own, const FlowEnd& peer,
                   Instant deadline) noexcept;

}  // namespace verbatim::softnic

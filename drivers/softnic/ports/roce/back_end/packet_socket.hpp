// A packet socket is the unprivileged UDP socket of the udp port. What sends IPv4 packets is not
// connected: so their identification stays 0, and their checksum can be computed before (docs/
// roce-port.md). Control path.
#pragma once

#include "../../../host/descriptor.hpp"
#include "../../tcp/meeting/stream_socket.hpp"

namespace verbatim::softnic {

// A socket at the address; the kernel chooses the port, which is stored. Throws
// Error(device_error).
Descriptor open_packet_socket(StreamPlace& place);
// Connects such a socket to the peer, whose datagrams alone it receives from now on: the kernel
// finds it quicker, and names need not be looked at. Of IPv4, what sends is another socket, of the
// same address and port, which receives nothing; it is returned in `sender`. False: that one
// cannot be made (no descriptors), and the socket is as it was.
bool connect_packet_socket(const Descriptor& socket, SocketName& peer, Descriptor& sender) noexcept;
// A raw socket that receives whole IPv4 packets to the port of such a socket, which itself receives
// nothing from now on. Empty: this process may have none (CAP_NET_RAW), and the socket is as it
// was.
Descriptor open_raw_receiver(const Descriptor& socket, const StreamPlace& place) noexcept;
// What came to a socket and was dropped.
std::uint64_t dropped_datagrams(int socket) noexcept;
// The path MTU that the interface of this address carries, log2.
unsigned mtu_log2_at(const StreamPlace& place) noexcept;

}  // namespace verbatim::softnic

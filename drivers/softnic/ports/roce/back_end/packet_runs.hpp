// Runs of packets leave by one call each: the kernel takes them as one datagram, which it cuts
// where it leaves the machine or where its receiver takes it (UDP_SEGMENT, udp(7)). It gives the
// parts identifications that count from that of the whole, which is 0 (inet_gso_segment()).
// Threads: as the socket.
#pragma once

#include <span>

#include "packet_back_end.hpp"
#include "packet_socket.hpp"

namespace verbatim::softnic {

// Whether the kernel knows them.
bool can_send_runs(int socket) noexcept;
// As send_packets(). EIO, EINVAL or EMSGSIZE: the route takes no runs, perhaps.
int send_runs(int socket, SocketName& peer, std::span<const PacketPieces> packets) noexcept;

}  // namespace verbatim::softnic

// Marks of congestion in IP headers (ECN, RFC 3168): routers set one instead of losing a packet,
// if its sender says that it understands. Threads: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>

namespace verbatim::softnic {

// The socket's packets may be marked (ECT(0)), and the kernel tells of marks of those that come.
// `mapped`: it is of IPv4.
void enable_marks(int socket, bool mapped) noexcept;

// Room for what the kernel tells of a datagram.
struct MarkRoom {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> bytes;

    // Before each datagram is received.
    void give_to(msghdr& message) noexcept {
        message.msg_control = bytes.data();
        message.msg_controllen = bytes.size();
    }
};
// A router has marked this datagram, which was received with a MarkRoom.
bool is_marked(const msghdr& message) noexcept;

}  // namespace verbatim::softnic

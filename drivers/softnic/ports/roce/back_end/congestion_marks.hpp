// Marks of congestion in IP headers (ECN, RFC 3168): routers set one instead of losing a packet,
// if its sender says that it understands. And what else the kernel tells of these headers. Threads:
// any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::softnic {

// The socket's packets may be marked (ECT(0)), and the kernel tells of marks of those that come.
// `mapped`: it is of IPv4.
void enable_marks(int socket, bool mapped) noexcept;

// The kernel also tells how many routers the packets could still have passed.
void enable_hops(int socket, bool mapped) noexcept;

// Of an IP header: the traffic class, whose lower two bits are ECN, and the hops that were left.
struct Traffic {
    std::uint8_t traffic_class = 0, hops = 0;

    bool marked() const noexcept { return (traffic_class & kMarked) == kMarked; }

  private:
    static constexpr std::uint8_t kMarked = 3;
};

// Room for what the kernel tells of a datagram: so many facts.
template <std::size_t Facts>
struct TrafficRoom {
    alignas(cmsghdr) std::array<std::byte, Facts * CMSG_SPACE(sizeof(int))> bytes;

    // Before each datagram is received.
    void give_to(msghdr& message) noexcept {
        message.msg_control = bytes.data();
        message.msg_controllen = bytes.size();
    }
};
using MarkRoom = TrafficRoom<1>;
// Of a datagram that was received with such a room.
Traffic traffic_of(const msghdr& message) noexcept;
// A router has marked it.
inline bool is_marked(const msghdr& message) noexcept { return traffic_of(message).marked(); }

}  // namespace verbatim::softnic

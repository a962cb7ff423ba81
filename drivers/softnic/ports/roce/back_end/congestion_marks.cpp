// The traffic class of datagrams that a socket sends and receives.
#include "congestion_marks.hpp"

namespace verbatim::softnic {
namespace {

// The two lower bits of the traffic class.
constexpr int kMayBeMarked = 2;

}  // namespace

void enable_marks(int socket, bool mapped) noexcept {
    const int level = mapped ? IPPROTO_IP : IPPROTO_IPV6, told = 1;
    setsockopt(socket, level, mapped ? IP_TOS : IPV6_TCLASS, &kMayBeMarked, sizeof kMayBeMarked);
    setsockopt(socket, level, mapped ? IP_RECVTOS : IPV6_RECVTCLASS, &told, sizeof told);
}

void enable_hops(int socket, bool mapped) noexcept {
    const int level = mapped ? IPPROTO_IP : IPPROTO_IPV6, told = 1;
    setsockopt(socket, level, mapped ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &told, sizeof told);
}

// A traffic class of IPv4 is one byte. Others are an int, whose first byte has the value.
Traffic traffic_of(const msghdr& message) noexcept {
    Traffic traffic;
    auto* const header = const_cast<msghdr*>(&message);
    for (cmsghdr* told = CMSG_FIRSTHDR(header); told != nullptr && told->cmsg_len > CMSG_LEN(0);
         told = CMSG_NXTHDR(header, told)) {
        const bool ipv4 = told->cmsg_level == IPPROTO_IP;
        if (!ipv4 && told->cmsg_level != IPPROTO_IPV6) continue;
        if (told->cmsg_type == (ipv4 ? IP_TOS : IPV6_TCLASS))
            traffic.traffic_class = *CMSG_DATA(told);
        else if (told->cmsg_type == (ipv4 ? IP_TTL : IPV6_HOPLIMIT))
            traffic.hops = *CMSG_DATA(told);
    }
    return traffic;
}

}  // namespace verbatim::softnic

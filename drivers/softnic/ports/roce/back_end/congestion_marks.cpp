// The traffic class of datagrams that a socket sends and receives.
#include "congestion_marks.hpp"

namespace verbatim::softnic {
namespace {

// The two lower bits of the traffic class.
constexpr int kMayBeMarked = 2, kMarked = 3;

}  // namespace

void enable_marks(int socket, bool mapped) noexcept {
    const int level = mapped ? IPPROTO_IP : IPPROTO_IPV6, told = 1;
    setsockopt(socket, level, mapped ? IP_TOS : IPV6_TCLASS, &kMayBeMarked, sizeof kMayBeMarked);
    setsockopt(socket, level, mapped ? IP_RECVTOS : IPV6_RECVTCLASS, &told, sizeof told);
}

// Of IPv4 it is one byte, of IPv6 an int, whose first byte has the value.
bool is_marked(const msghdr& message) noexcept {
    const cmsghdr* const told = CMSG_FIRSTHDR(&message);
    if (told == nullptr || told->cmsg_len <= CMSG_LEN(0)) return false;
    const bool known = (told->cmsg_level == IPPROTO_IP && told->cmsg_type == IP_TOS) ||
                       (told->cmsg_level == IPPROTO_IPV6 && told->cmsg_type == IPV6_TCLASS);
    return known && (*CMSG_DATA(told) & kMarked) == kMarked;
}

}  // namespace verbatim::softnic

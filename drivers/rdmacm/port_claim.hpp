// Ports of the connection manager. A port belongs to the holder of an abstract Unix socket named
// after user, port space, port and address:
//     verbatim-rdmacm-<uid>-<port space>-<port>-<address>
// with the address in hexadecimal digits, or any4, any6, any (both families). The name vanishes
// with its process, whatever way that ends, and connection requests for the port go to that socket.
// Threads: any.
#pragma once

#include <cstdint>

#include "../softnic/host/descriptor.hpp"
#include "endpoint.hpp"

namespace verbatim::rdmacm {

// Values of enum rdma_ucm_port_space.
enum class PortSpace : std::uint16_t { tcp = 0x0106, udp = 0x0111, ib = 0x013f };

struct ClaimTerms {
    PortSpace space;
    bool only_family;  // a wildcard of one family leaves the port to the other
    bool shared;       // others may claim it on the same terms; such a claim takes no requests
};

// Claims endpoint.port, or a free one if it is 0, which is then set. 0 or an errno (EADDRINUSE).
int claim_port(Endpoint& endpoint, const ClaimTerms& terms, softnic::Descriptor& claim);

// A link to the listener at `to`. ECONNREFUSED: nobody; EAGAIN: somebody who has no time now.
int link_to(const Endpoint& to, PortSpace space, softnic::Descriptor& link);

// Whether the process at the other end belongs to this user.
bool same_user(int link) noexcept;

}  // namespace verbatim::rdmacm

// The choice between the ports. Both sides make it of the same two addresses,
// so both choose the same. Control path.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <verbatim/driver/device.hpp>
#include <verbatim/softnic/softnic.hpp>

namespace verbatim::softnic {

// QueuePairAddress::ports.
inline constexpr std::uint8_t kShmOffered = 1, kTcpOffered = 2, kSameUserOnly = 4, kUdpOffered = 8;

// Processes with the same name share abstract sockets, and count users alike. Zeros: not known.
using HostName = std::array<std::uint8_t, 16>;
HostName host_name();
std::uint8_t ports_offered(PortKind kind, bool same_user_only) noexcept;

struct PortChoice {
    PortKind port = PortKind::shm;
    std::string reason;   // of another one
    bool unsure = false;  // of udp: tcp it is if the peer answers no packet

    bool shm() const noexcept { return port == PortKind::shm; }
};
// Throws Error(unsupported): the two sides have no port in common.
PortChoice choose_port(const QueuePairAddress& own, const QueuePairAddress& peer);

}  // namespace verbatim::softnic

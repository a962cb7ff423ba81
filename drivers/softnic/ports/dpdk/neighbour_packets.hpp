// Questions for MAC addresses, and their answers: ARP (RFC 826) for IPv4, neighbour solicitations
// and advertisements (RFC 4861) for IPv6. Nothing of a received frame is used before it was
// checked. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ethernet_frames.hpp"

namespace verbatim::softnic {

struct NeighbourPacket {
    enum class Kind : std::uint16_t { question = 1, answer = 2 };
    Kind kind{};
    MacAddress sender_mac{};  // of `sender`
    MacAddress target_mac{};  // of an answer: it goes there
    // Of a question for the target's MAC address; of an answer: the address that was asked for, and
    // the one that asked. Both are of one version of IP. A sender of zeros (IPv6): it has no
    // address yet.
    IpAddress sender{}, target{};
};
// False: it is neither.
bool parse_neighbour(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept;

struct NeighbourFrame {
    static constexpr std::size_t kMost = 86;
    std::array<std::byte, kMost> bytes{};
    std::size_t count = 0;

    std::span<const std::byte> view() const noexcept { return std::span(bytes).first(count); }
};
NeighbourFrame neighbour_frame(const NeighbourPacket& packet) noexcept;

// Of one version each.
bool parse_arp(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept;
bool parse_discovery(std::span<const std::byte> frame, NeighbourPacket& packet) noexcept;
NeighbourFrame arp_frame(const NeighbourPacket& packet) noexcept;
NeighbourFrame discovery_frame(const NeighbourPacket& packet) noexcept;

}  // namespace verbatim::softnic

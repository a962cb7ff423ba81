// Packet faults strike packets that the udp and dpdk ports send, repeatable from a seed: programs
// are tried on a bad network. Requests have the fault policy (fault_policy.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::softnic {

// Each in millionths of the packets.
struct PacketFaults {
    std::uint32_t lose = 0, duplicate = 0, swap = 0, corrupt = 0;
    std::uint64_t seed = 1;

    bool any() const noexcept { return lose + duplicate + swap + corrupt != 0; }
};

// In words, as configurations have it, rates from 0 to 0.5: "lose=0.01 swap=0.001 seed=7". An empty
// text: none. `object` names the place in errors. Throws Error(config_error).
[[gnu::visibility("default")]] PacketFaults parse_packet_faults(std::string_view text,
                                                                const std::string& object);

[[gnu::visibility("default")]] bool are_packet_faults(std::string_view text) noexcept;
inline constexpr const char* kPacketFaultsAllowed =
    "a text such as \"lose=0.01 duplicate=0.001 swap=0.01 corrupt=0.0001 seed=7\", rates up to 0.5";

}  // namespace verbatim::softnic

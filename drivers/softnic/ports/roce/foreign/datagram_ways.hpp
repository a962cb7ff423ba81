// The ways of a datagram queue pair's packets: one for each address that it sends to. Owner: the
// datagram wire. Threads: the one inside the send gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "../back_end/packet_back_end.hpp"
#include "../back_end/packet_service.hpp"
#include "../packets/packet_checksum.hpp"
#include "roce_endpoint.hpp"

namespace verbatim::softnic {

class DatagramWays {
  public:
    struct Way {
        PacketChecksum checksum;
        std::unique_ptr<PacketBackEnd> back_end;
    };
    // How many are remembered; what one costs is made anew beyond that.
    static constexpr std::size_t kMost = 1024;

    // The service outlives this.
    DatagramWays(std::shared_ptr<RoceEndpoint> endpoint, PacketService& service) noexcept
        : endpoint_(std::move(endpoint)), service_(service) {}

    // Null: there is no memory, or the address is of another version of IP than the endpoint's.
    Way* to(const std::array<std::uint8_t, 16>& address) noexcept;

  private:
    const std::shared_ptr<RoceEndpoint> endpoint_;
    PacketService& service_;
    std::map<std::array<std::uint8_t, 16>, Way> ways_;
};

}  // namespace verbatim::softnic

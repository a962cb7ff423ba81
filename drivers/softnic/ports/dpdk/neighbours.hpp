// The neighbours of an Ethernet link: MAC addresses of peers, and the answers to those who ask for
// the link's own. IPv6 addresses that follow from MAC addresses need neither. Threads: those
// inside the link's gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <verbatim/softnic/softnic.hpp>

#include "ethernet_frames.hpp"
#include "neighbour_packets.hpp"

namespace verbatim::softnic {

// The MAC address of an IP address, once it is known. Threads: any.
class Neighbour {
  public:
    explicit Neighbour(const IpAddress& address) noexcept : address_(address) {}

    const IpAddress& address() const noexcept { return address_; }
    void learn(const MacAddress& mac) noexcept;
    // False: not known.
    bool find(MacAddress& mac) const noexcept;

  private:
    static constexpr std::uint64_t kKnown = std::uint64_t{1} << 63;
    const IpAddress address_;
    std::atomic<std::uint64_t> mac_{0};
};

class Neighbours {
  public:
    // The device outlives this. Throws Error(invalid_argument): an address is none.
    Neighbours(EthernetDevice& device, const DpdkOptions& options);

    // The link's own. Any thread.
    const IpAddress& own() const noexcept { return own_; }
    // Throws std::bad_alloc.
    std::shared_ptr<const Neighbour> find(const IpAddress& address);
    // Asks for its MAC address. Any thread.
    void ask(const Neighbour& neighbour) noexcept;
    void take(const NeighbourPacket& packet) noexcept;

  private:
    void send(const NeighbourPacket& packet) noexcept;

    EthernetDevice& device_;
    const IpAddress own_;
    const MacAddress peer_mac_;
    const bool fixed_;  // all frames go there
    std::map<IpAddress, std::shared_ptr<Neighbour>> known_;
};

}  // namespace verbatim::softnic

// What the udp ports, or the dpdk ports, of one device share: their time, and the faults of their
// packets. Control path; threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <verbatim/softnic/softnic.hpp>

#include "../../dpdk/ethernet_link.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class PacketService {
  public:
    // Throws Error: the dpdk port's device cannot be opened.
    explicit PacketService(const Options& options)
        : timeout_(options.packets.timeout),
          faults_(options.packet_faults),
          link_(options.port == PortKind::dpdk ? EthernetLink::open(options.packets.dpdk)
                                               : nullptr) {}

    std::chrono::milliseconds timeout() const noexcept { return timeout_; }
    // The same back end, or one that makes faults. Throws std::bad_alloc.
    std::unique_ptr<PacketBackEnd> over(std::unique_ptr<PacketBackEnd> back_end);
    // Of the dpdk port; null: packets go through sockets.
    const std::shared_ptr<EthernetLink>& link() const noexcept { return link_; }

  private:
    const std::chrono::milliseconds timeout_;
    const PacketFaults faults_;
    const std::shared_ptr<EthernetLink> link_;
    std::atomic<std::uint64_t> flows_{0};  // each has faults of its own
};

}  // namespace verbatim::softnic

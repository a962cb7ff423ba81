// The RoCE endpoint over the Ethernet link of the dpdk port (docs/dpdk-port.md). One device of a
// process has the port.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "../../dpdk/ethernet_link.hpp"
#include "roce_endpoint.hpp"

namespace verbatim::softnic {

class RoceLink final : public RoceEndpoint, LinkListener {
  public:
    // Throws Error(invalid_argument): it is not the link's address; Error(device_error): another
    // device of the process has the port.
    RoceLink(const std::shared_ptr<EthernetLink>& link,
             const std::array<std::uint8_t, 16>& address);
    ~RoceLink() override;

    void drain(const PacketInbox* own) noexcept override { link_->poll(own); }

  private:
    std::unique_ptr<PacketBackEnd> make_sender(const StreamPlace& peer) override;
    void take(const FrameDatagram& datagram, const void* own) noexcept override;

    const std::shared_ptr<EthernetLink> link_;
};

}  // namespace verbatim::softnic

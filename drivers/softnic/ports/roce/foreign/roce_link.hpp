// The RoCE endpoint over the Ethernet link of the dpdk port (docs/dpdk-port.md). Several devices of
// a process have one each: numbers of queue pairs differ.
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
    // Throws Error(invalid_argument): it is not the link's address.
    RoceLink(const std::shared_ptr<EthernetLink>& link,
             const std::array<std::uint8_t, 16>& address);
    ~RoceLink() override;

    void drain(const PacketInbox* own) noexcept override { link_->poll(own); }

  private:
    std::unique_ptr<PacketBackEnd> make_sender(const StreamPlace& peer) override;
    bool take(const FrameDatagram& datagram, const void* own) noexcept override;

    const std::shared_ptr<EthernetLink> link_;
};

}  // namespace verbatim::softnic

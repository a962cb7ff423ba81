// The back end over an Ethernet link (docs/dpdk-port.md), and the door by which packets come to one
// queue pair of the link before that. Threads: as PacketBackEnd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../../dpdk/ethernet_link.hpp"
#include "link_sender.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class LinkDoor {
  public:
    // Throws Error(device_error). Control path.
    LinkDoor(std::shared_ptr<EthernetLink> link, std::uint32_t queue_pair);
    ~LinkDoor();
    LinkDoor(const LinkDoor&) = delete;
    LinkDoor& operator=(const LinkDoor&) = delete;

    EthernetLink& link() noexcept { return *link_; }
    LinkInbox& inbox() noexcept { return inbox_; }
    const LinkInbox& inbox() const noexcept { return inbox_; }
    const StreamPlace& place() const noexcept { return place_; }

  private:
    const std::shared_ptr<EthernetLink> link_;
    const std::uint32_t queue_pair_;
    LinkInbox inbox_;
    StreamPlace place_;
};

class LinkBackEnd final : public PacketBackEnd {
  public:
    // Control path.
    LinkBackEnd(std::unique_ptr<LinkDoor> door, const StreamPlace& peer);

    int file() const noexcept override { return door_->inbox().arm(); }
    std::size_t receive(std::span<std::byte> into, std::size_t each,
                        std::span<std::size_t> lengths) noexcept override;
    std::size_t send(std::span<const PacketPieces> packets) noexcept override {
        return sender_.send(packets);
    }
    std::uint32_t refusals() const noexcept override { return 0; }  // nobody says so
    std::uint64_t foreign() const noexcept override { return foreign_; }

  private:
    static constexpr std::size_t kBurst = 32;

    const std::unique_ptr<LinkDoor> door_;
    const StreamPlace peer_;
    LinkSender sender_;
    std::uint64_t foreign_ = 0;
};

}  // namespace verbatim::softnic

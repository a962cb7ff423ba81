// The back end of a flow whose peer is no software NIC of ours: packets of its queue pair, through
// the RoCE endpoint that the device's queue pairs share. Threads: as PacketBackEnd.
#pragma once

#include <memory>
#include <utility>

#include "../back_end/packet_back_end.hpp"
#include "roce_endpoint.hpp"

namespace verbatim::softnic {

class ForeignPackets final : public PacketBackEnd {
  public:
    // The peer has an address of the endpoint's version of IP. Throws Error(device_error),
    // std::bad_alloc.
    ForeignPackets(std::shared_ptr<RoceEndpoint> endpoint, std::uint32_t queue_pair,
                   const StreamPlace& peer);
    ~ForeignPackets() override;

    int file() const noexcept override { return inbox_.file(); }
    // They were looked at: source, queue pair and checksum are right.
    std::size_t receive(std::span<std::byte> into, std::size_t each,
                        std::span<std::size_t> lengths) noexcept override;
    std::uint32_t marked() const noexcept override { return marked_; }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override {
        return sender_->send(packets);
    }
    // Other machines' answers are not told apart by queue pairs.
    std::uint32_t refusals() const noexcept override { return 0; }
    std::uint64_t foreign() const noexcept override { return endpoint_->dropped(); }

  private:
    const std::shared_ptr<RoceEndpoint> endpoint_;
    const std::uint32_t queue_pair_;
    const std::unique_ptr<PacketBackEnd> sender_;
    PacketInbox inbox_;
    std::uint32_t marked_ = 0;
};

}  // namespace verbatim::softnic

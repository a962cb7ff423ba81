// The RoCE endpoint over a UDP socket. One process has the port, for each address. Where the
// process may have a raw socket (CAP_NET_RAW), IPv4 packets come by that one, with their headers:
// so their checksums are verified with the identification that the sender chose.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../../../../softqueue/gate.hpp"
#include "../../../host/descriptor.hpp"
#include "roce_endpoint.hpp"

namespace verbatim::softnic {

class RoceSocket final : public RoceEndpoint, EventThread::Handler {
  public:
    // Throws Error(device_error): another process has the port.
    RoceSocket(EventThread& thread, const std::array<std::uint8_t, 16>& address);
    ~RoceSocket() override;

    void drain(const PacketInbox* own) noexcept override;

  private:
    static constexpr std::size_t kBatch = 16;

    std::unique_ptr<PacketBackEnd> make_sender(const StreamPlace& peer) override;
    bool ready() noexcept override;
    bool tick() noexcept override { return false; }
    bool take_batch(const PacketInbox* own) noexcept;
    void take(std::span<std::byte> packet, const msghdr& message, const PacketInbox* own) noexcept;
    const Descriptor& inbound() const noexcept { return raw_ ? raw_ : socket_; }

    EventThread& thread_;
    Descriptor socket_, raw_;  // empty: there is none
    std::uint64_t number_ = 0;
    Gate gate_;  // over what follows
    std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace verbatim::softnic

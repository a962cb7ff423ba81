// A RoCE endpoint is an IP address of a device with UDP port 4791, where RoCEv2 packets of all its
// queue pairs arrive and leave: peers that are no software NIC send to no other port. Below it is a
// socket (roce_socket.hpp), or the link of the dpdk port (roce_link.hpp).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "../../../../softqueue/gate.hpp"
#include "../../../host/own_threads.hpp"
#include "../../dpdk/ethernet_frames.hpp"
#include "../../tcp/event_thread.hpp"
#include "../../tcp/meeting/stream_socket.hpp"
#include "../back_end/packet_back_end.hpp"
#include "packet_inbox.hpp"

namespace verbatim::softnic {

class PacketService;

class RoceEndpoint {
  public:
    virtual ~RoceEndpoint() = default;
    RoceEndpoint(const RoceEndpoint&) = delete;
    RoceEndpoint& operator=(const RoceEndpoint&) = delete;

    // Control path: packets for the queue pair go to the inbox, until it is removed.
    void add(std::uint32_t queue_pair, PacketInbox& inbox);
    void remove(std::uint32_t queue_pair) noexcept;
    // Takes what has come, unless another thread does. The consumer of `own` need not be told. Any
    // thread.
    virtual void drain(const PacketInbox* own) noexcept = 0;
    // A back end that only sends, which this outlives. Null: the address is of another version of
    // IP. Throws Error, std::bad_alloc.
    std::unique_ptr<PacketBackEnd> sender_to(const StreamPlace& peer);
    const StreamPlace& place() const noexcept { return place_; }
    // Packets that were changed, for nobody, or from another address. Any thread.
    std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  protected:
    // What is known of a packet by its headers.
    struct Header {
        StreamPlace source;
        Traffic traffic;
        std::optional<std::uint16_t> identification;  // none: the headers were not seen
    };

    static Header header_of(const FrameDatagram& datagram) noexcept {
        return {datagram.from, {datagram.traffic_class, datagram.hops}, datagram.identification};
    }

    // The gate is the one inside which packets are delivered; it outlives this.
    RoceEndpoint(const StreamPlace& place, Gate& gate) noexcept : place_(place), gate_(gate) {}

    // Inside the gate. A packet that its queue pair does not take is counted. False: it is too
    // short, or there is no such queue pair.
    bool deliver(std::span<const std::byte> datagram, const Header& from,
                 const PacketInbox* own) noexcept;
    void drop() noexcept { dropped_.store(dropped() + 1, std::memory_order_relaxed); }

  private:
    virtual std::unique_ptr<PacketBackEnd> make_sender(const StreamPlace& peer) = 0;
    bool put(std::span<const std::byte> datagram, const Header& from, PacketInbox& inbox) noexcept;

    const std::uint64_t generation_ = fork_generation();
    const StreamPlace place_;
    std::atomic<std::uint64_t> dropped_{0};
    Gate& gate_;  // over what follows
    std::map<std::uint32_t, PacketInbox*> inboxes_;
};

// Those of a device, one for each of its addresses. It outlives them. Control path; threads: any.
class RoceEndpoints {
  public:
    // Of the service's link if it has one, else a socket. Throws Error(device_error |
    // invalid_argument): somebody else has the port, or the address is not the link's.
    std::shared_ptr<RoceEndpoint> at(const PacketService& service, EventThread& thread,
                                     const std::array<std::uint8_t, 16>& address);

  private:
    using Address = std::array<std::uint8_t, 16>;
    std::shared_ptr<RoceEndpoint> begin(const PacketService& service, EventThread& thread,
                                        const Address& address);
    void end(const Address& address, RoceEndpoint* endpoint) noexcept;

    const std::uint64_t generation_ = fork_generation();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Address, std::weak_ptr<RoceEndpoint>> endpoints_;
};

}  // namespace verbatim::softnic

// The socket at UDP port 4791, where RoCEv2 packets of all queue pairs of a device arrive: peers
// that are no software NIC send to no other port. One process has it, for each address.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "../../../../softqueue/gate.hpp"
#include "../../../host/descriptor.hpp"
#include "../../tcp/event_thread.hpp"
#include "../../tcp/meeting/stream_socket.hpp"
#include "packet_inbox.hpp"

namespace verbatim::softnic {

inline constexpr std::uint16_t kRocePort = 4791;

class RoceSocket final : EventThread::Handler {
  public:
    // Throws Error(device_error): another process has the port.
    RoceSocket(EventThread& thread, const std::array<std::uint8_t, 16>& address);
    ~RoceSocket();
    RoceSocket(const RoceSocket&) = delete;
    RoceSocket& operator=(const RoceSocket&) = delete;

    // Control path: packets for the queue pair go to the inbox, until it is removed.
    void add(std::uint32_t queue_pair, PacketInbox& inbox);
    void remove(std::uint32_t queue_pair) noexcept;
    // Takes what has come, unless another thread does. The consumer of `own` need not be told. Any
    // thread.
    void drain(const PacketInbox* own) noexcept;
    const StreamPlace& place() const noexcept { return place_; }
    // For sending. Any thread.
    int file() const noexcept { return socket_.get(); }
    // Packets that were changed, for nobody, or from another address. Any thread.
    std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  private:
    static constexpr std::size_t kBatch = 16;

    bool ready() noexcept override;
    bool tick() noexcept override { return false; }
    bool take_batch(const PacketInbox* own) noexcept;
    struct Header {
        StreamPlace source;
        Traffic traffic;
    };
    bool deliver(std::span<const std::byte> datagram, const Header& from,
                 const PacketInbox* own) noexcept;

    const std::uint64_t generation_ = fork_generation();
    EventThread& thread_;
    StreamPlace place_;
    Descriptor socket_;
    std::uint64_t number_ = 0;
    std::atomic<std::uint64_t> dropped_{0};
    Gate gate_;  // over what follows
    std::map<std::uint32_t, PacketInbox*> inboxes_;
    std::unique_ptr<std::byte[]> bytes_;
};

// Those of a device, one for each of its addresses. Control path; threads: any.
class RoceSockets {
  public:
    // Throws as the socket's constructor.
    std::shared_ptr<RoceSocket> at(EventThread& thread,
                                   const std::array<std::uint8_t, 16>& address);

  private:
    std::mutex mutex_;
    std::map<std::array<std::uint8_t, 16>, std::weak_ptr<RoceSocket>> sockets_;
};

}  // namespace verbatim::softnic

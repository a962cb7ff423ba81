// The wire of a datagram queue pair: RoCEv2 packets to and from any device, through the RoCE
// endpoint that the device's queue pairs share. Each message is one packet; nothing is sent again,
// and nobody learns whether it arrives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../../../keys/pieces.hpp"
#include "packet_inbox.hpp"

namespace verbatim::softnic {

class CaptureFile;
class DatagramWays;
class PacketService;
class RoceEndpoint;
struct StreamPlace;

class DatagramWire {
  public:
    // Packets for the queue pair come from now on. `notice`: tells of those that no look() found.
    // The service outlives this. Throws std::bad_alloc.
    DatagramWire(std::shared_ptr<RoceEndpoint> endpoint, std::uint32_t queue_pair,
                 PacketService& service, const InboxNotice& notice);
    ~DatagramWire();
    DatagramWire(const DatagramWire&) = delete;
    DatagramWire& operator=(const DatagramWire&) = delete;

    // Control path: none comes any more, and no notice does.
    void close() noexcept;
    // Control path, before the first send().
    void set_sequence(std::uint32_t first) noexcept { sequence_ = first; }
    // Whether messages to this address go by packets: its kind is not that of one link.
    static bool carries(const std::array<std::uint8_t, 16>& address) noexcept;

    // Takes what has come to the endpoint. Any thread.
    void look() noexcept;
    bool pending() const noexcept { return !inbox_.empty(); }

    struct Message {
        std::array<std::uint8_t, 16> address;
        std::uint32_t queue_pair;
        std::uint32_t queue_key;
        const std::uint32_t* immediate;  // as in the work request; null: none
        bool solicited;
    };
    // False: it is to be given again. True also where it is dropped. Inside the send gate.
    bool send(const Message& message, const PieceList& bytes) noexcept;

    // Inside the receive gate: the next message that came, once, and where from. Its form and its
    // checksum are right. It lasts until pop(). False: there is none.
    struct Arrived {
        WirePacket packet;
        PacketOrigin origin;
        std::size_t datagram_bytes;
    };
    bool peek(Arrived& arrived) noexcept;
    void pop() noexcept { inbox_.pop(); }
    void quiet() noexcept { inbox_.quiet(); }
    const StreamPlace& place() const noexcept;

  private:
    const std::shared_ptr<RoceEndpoint> endpoint_;
    const std::uint32_t queue_pair_;
    CaptureFile* const capture_;  // null: nothing is captured
    PacketInbox inbox_;
    const std::unique_ptr<DatagramWays> ways_;
    std::uint32_t sequence_ = 0;  // of the next packet
};

}  // namespace verbatim::softnic

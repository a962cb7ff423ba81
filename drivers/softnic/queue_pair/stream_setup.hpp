// The set-up of a queue pair's stream, where its port is tcp, or of its packets, where that is udp:
// the token by which a stream may come, or where packets arrive, and the wire itself until the
// queue pair forgets its peer. Control path, one caller at a time; tell() also beside others.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "../ports/roce/back_end/link_back_end.hpp"
#include "../ports/roce/packet_flow.hpp"
#include "../ports/tcp/meeting/port_choice.hpp"
#include "../ports/tcp/stream.hpp"
#include "queue_pair_state.hpp"
#include "wire_services.hpp"

namespace verbatim::softnic {

class StreamSetup {
  public:
    StreamSetup(WireServices& wires, QueuePairShared& shared) noexcept
        : wires_(wires), shared_(shared) {}
    ~StreamSetup() { decline(); }
    StreamSetup(const StreamSetup&) = delete;
    StreamSetup& operator=(const StreamSetup&) = delete;

    // This machine's address on the way to the peer; zeros, as at first: not known.
    void set_local_address(const std::array<std::uint8_t, 16>& local) noexcept { local_ = local; }
    // Where a stream of the peer arrives, if the port is offered: one may come then, until
    // decline(). Throws Error(device_error).
    void tell(QueuePairAddress& address);
    void decline() noexcept;
    // The stream between these two, which the engine thread watches, though it may come later; the
    // queue pair's ring is open. Throws Error as StreamDoors::meet().
    struct Meeting {
        std::unique_ptr<PeerStream> peer;
        Stream* stream = nullptr;  // its wire: either this, or
        PacketFlow* flow = nullptr;
    };
    Meeting meet(PortKind port, const QueuePairAddress& own, const QueuePairAddress& peer,
                 Instant deadline, const PeerStream::Driver& driver);
    // Where the choice is unsure: udp if the peer answers a packet, which takes a quarter of a
    // second otherwise; else tcp, and the packet socket is closed, which tells the peer.
    void settle(PortChoice& choice, const QueuePairAddress& own, const QueuePairAddress& peer,
                Instant deadline);
    // A flow to a peer that is no software NIC of ours, or is taken for none: only its address, its
    // number and PSNs are known. Throws Error(device_error): the RoCE port is taken.
    Meeting meet_foreign(const FlowOptions& options, const PeerStream::Driver& driver);
    // Null: nothing is captured.
    CaptureFile* capture() const noexcept { return wires_.packets.capture(); }
    // Inside both gates: the queue pair's from now on.
    void bind(std::unique_ptr<PeerStream> stream) noexcept;
    // Afterwards, at any time; as Wire::set_patience().
    void set_patience(std::chrono::nanoseconds patience) noexcept {
        if (stream_ != nullptr) stream_->wire().set_patience(patience);
    }
    // No round comes to the queue pair: the engine thread does not either any more.
    void unwatch() noexcept;
    // The stream ends. After unwatch(), inside both gates.
    void forget() noexcept;

  private:
    // Where packets arrive, from tell() on: a socket, or a door of the Ethernet link.
    struct PacketSocket {
        Descriptor socket;  // neither: a flow has it
        std::unique_ptr<LinkDoor> door;
        StreamPlace place;
        std::uint32_t first_sequence = 0;
        unsigned mtu_log2 = 0;
    };
    void tell_packets(QueuePairAddress& address);
    void open_packets(std::uint32_t queue_pair);
    std::unique_ptr<PacketBackEnd> take_back_end(const StreamPlace& peer);
    void begin_flow(Meeting& meeting, ChannelSender ring, const QueuePairAddress& own,
                    const QueuePairAddress& peer);

    WireServices& wires_;
    QueuePairShared& shared_;
    std::array<std::uint8_t, 16> local_{};
    std::mutex mutex_;                       // over the token and the socket
    StreamToken token_{};                    // zeros: none
    std::unique_ptr<PacketSocket> packets_;  // null: none was told of
    std::unique_ptr<PeerStream> stream_;
};

}  // namespace verbatim::softnic

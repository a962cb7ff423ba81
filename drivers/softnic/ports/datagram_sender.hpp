// Sends the datagrams of a queue pair: each says where it goes, and nobody learns whether it
// arrives. Owner: the requester. Threads: the one inside the send gate.
#pragma once

#include <cstdint>
#include <memory>

#include "../queue_pair/datagram_flows.hpp"
#include "../queue_pair/queue_pair_state.hpp"
#include "port.hpp"
#include "send_request.hpp"

namespace verbatim::softnic {

class DatagramSender {
  public:
    explicit DatagramSender(QueuePairShared& shared) noexcept : shared_(&shared) {}

    // Units of every request before its data.
    static constexpr std::size_t kFirstData =
        (sizeof(mlx5::ControlSegment) + sizeof(mlx5::DatagramSegment)) / mlx5::kUnitBytes;
    // Whether such a queue pair has this request at all.
    bool knows(const SendRequest& request) noexcept;
    // Done, though it may be dropped; refused (longer than datagrams are), or waits for room or for
    // its way.
    PortAnswer send(const SendRequest& request, const PieceList& bytes) noexcept;

    // The ring into a queue pair that was asked for, or that there is none.
    void add_flow(std::uint32_t number, std::shared_ptr<Link> link, ChannelSender ring) noexcept;
    void refuse_flow(std::uint32_t number, bool absent) noexcept;
    // The queue pair is reset, or goes. Not in a forked child, whose parent sends on.
    void forget_flows() noexcept;

  private:
    Flow* flow_to(std::uint32_t number) noexcept;
    std::uint32_t key_of(const mlx5::DatagramSegment& address) const noexcept;
    PortAnswer send_packet(DatagramWire& wire, const SendRequest& request,
                           const mlx5::DatagramSegment& address, const PieceList& bytes) noexcept;

    QueuePairShared* shared_;
    Flows flows_;
};

}  // namespace verbatim::softnic

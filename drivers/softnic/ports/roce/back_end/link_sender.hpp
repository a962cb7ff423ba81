// A back end over an Ethernet link that only sends, to one peer. Threads: as PacketBackEnd.
#pragma once

#include <cstddef>
#include <memory>

#include "../../dpdk/ethernet_link.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class LinkSender final : public PacketSender {
  public:
    // The link outlives this. Control path. Throws Error(unsupported): the peer's address is of
    // another version of IP; std::bad_alloc.
    LinkSender(EthernetLink& link, const StreamPlace& own, const StreamPlace& peer);

    // While the peer's MAC address is asked for nothing is taken, for Neighbour::kQuestions at
    // most; then packets are lost. Those that are longer than a frame always are.
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;

  private:
    static constexpr std::size_t kBurst = 32;

    enum class Way { known, asked, lost };
    Way find_way() noexcept;
    bool fits(std::size_t datagram_bytes) noexcept;

    EthernetLink& link_;
    const StreamPlace peer_;
    const std::size_t most_;  // bytes of a datagram in a frame
    const std::shared_ptr<const Neighbour> neighbour_;
    DatagramHeaders headers_;
    bool told_ = false;  // of a packet that is too long
};

}  // namespace verbatim::softnic

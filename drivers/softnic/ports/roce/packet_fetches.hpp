// The reads and atomic operations of a requester as packets. Owner: the udp port. Threads: the one
// inside the send gate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../../rings/remote_atomic.hpp"
#include "../tcp/fetches.hpp"
#include "request_packets.hpp"

namespace verbatim::softnic {

class PacketFetches {
  public:
    // All outlive this.
    PacketFetches(RequestPackets& packets, ReadResults& results, FetchList& list,
                  std::size_t mtu) noexcept
        : packets_(packets), results_(results), list_(list), mtu_(mtu) {}

    // False: there is no room for another read.
    bool begin(std::uint64_t bytes) noexcept { return list_.begin(bytes); }
    // Asks for what is left of the read that was begun last, as far as there is room. The last
    // number of it, once all was asked for; else 0.
    std::uint64_t ask(std::uint64_t address, std::uint32_t key, const PieceList& into) noexcept;
    // A whole operation; its number, or 0: there is no room.
    std::uint64_t ask(const RemoteAtomic& operation) noexcept;
    // True once after packets were committed.
    bool take_news() noexcept { return std::exchange(news_, false); }

  private:
    bool ask_once(std::uint64_t address, std::uint32_t key, FetchList::Fetch& fetch) noexcept;

    RequestPackets& packets_;
    ReadResults& results_;
    FetchList& list_;
    const std::size_t mtu_;
    std::uint64_t last_ = 0;  // number of the last question
    bool news_ = false;
};

}  // namespace verbatim::softnic

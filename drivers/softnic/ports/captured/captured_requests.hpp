// Captured requests are those of a port without packets, as the packets that the udp port would
// have sent and received for them. Sequence numbers count from 0. Owner: the captured port.
// Threads: the one inside the send gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../port.hpp"
#include "../roce/packet_output.hpp"
#include "capture_output.hpp"

namespace verbatim::softnic {

// Where the packets of a connection would go.
struct CapturedEnds {
    std::array<std::uint8_t, 16> own{}, peer{};  // addresses, IPv6 or IPv4-mapped
    std::uint32_t own_queue_pair = 0, peer_queue_pair = 0;
};

class CapturedRequests {
  public:
    // The file outlives this.
    CapturedRequests(CaptureFile& file, const CapturedEnds& ends) noexcept;
    CapturedRequests(const CapturedRequests&) = delete;
    CapturedRequests& operator=(const CapturedRequests&) = delete;

    // Numbers of packets, from 0 on; of a read those of its response.
    struct Numbers {
        std::uint64_t first = 0, last = 0;
    };
    // The packets of a request. `bytes`: what is sent, or where results go.
    Numbers add(const PortRequest& request, const PieceList& bytes) noexcept;

    // The peer's answers: everything up to this number is done; the request failed.
    void acknowledge(std::uint64_t number) noexcept;
    void refuse(std::uint64_t number, mlx5::Syndrome syndrome) noexcept;
    // Results that have come, of a read and of an atomic operation.
    void respond(const Numbers& numbers, const PieceList& bytes) noexcept;
    void respond(std::uint64_t number, const PieceList& before) noexcept;

  private:
    // The longest path MTU, as by DPDK and on loopbacks.
    static constexpr std::size_t kMtu = kMaxPacketPayload;
    using Head = PacketOutput::Head;

    Numbers add_message(const PortRequest& request, const PieceList& bytes) noexcept;
    Numbers add_read(const PortRequest& request, std::uint64_t bytes) noexcept;
    template <class Header>
    void put(const Header& header) noexcept {
        put(&header, sizeof header);
    }
    void put(const void* from, std::size_t bytes) noexcept;
    void put(const PieceList& bytes, std::uint64_t skip, std::size_t count) noexcept;
    // What was put is the packet behind this head.
    void end(PacketOutput& way, const Head& head) noexcept;

    CaptureOutput sent_, received_;
    PacketOutput outgoing_, incoming_;
    std::uint64_t next_ = 0;      // number of the next packet
    std::uint64_t messages_ = 0;  // that the peer has completed
    std::size_t used_ = 0;
    std::array<std::byte, kMaxPacketBytes> packet_;  // extended headers and payload
};

}  // namespace verbatim::softnic

// A back end that makes faults of packets that are sent: some are lost, doubled, swapped with the
// next one, or changed in one bit. Threads: as PacketBackEnd.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <verbatim/softnic/softnic.hpp>

#include "../packets/packet.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class FaultyPackets final : public PacketBackEnd {
  public:
    FaultyPackets(std::unique_ptr<PacketBackEnd> inner, const PacketFaults& faults) noexcept
        : inner_(std::move(inner)), faults_(faults), random_(faults.seed) {}

    int file() const noexcept override { return inner_->file(); }
    std::size_t receive(std::span<std::byte> into, std::size_t each,
                        std::span<std::size_t> lengths) noexcept override {
        return inner_->receive(into, each, lengths);
    }
    std::uint32_t marked() const noexcept override { return inner_->marked(); }
    bool sends_runs() const noexcept override { return inner_->sends_runs(); }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;
    std::uint32_t refusals() const noexcept override { return inner_->refusals(); }
    std::uint64_t foreign() const noexcept override { return inner_->foreign(); }
    std::uint64_t unseen() const noexcept override { return inner_->unseen(); }

  private:
    struct Copy {
        std::array<std::byte, kMaxPacketBytes> bytes;
        std::size_t count = 0;
    };

    std::uint64_t draw() noexcept;
    bool strikes(std::uint32_t millionths) noexcept;
    static void copy(const PacketPieces& packet, Copy& to) noexcept;
    bool take(const PacketPieces& packet) noexcept;
    bool send_changed(const PacketPieces& packet) noexcept;
    bool send_one(const PacketPieces& packet) noexcept;
    bool send_one(Copy& packet) noexcept;

    const std::unique_ptr<PacketBackEnd> inner_;
    const PacketFaults faults_;
    std::uint64_t random_;
    Copy held_;     // goes behind the next one
    Copy changed_;  // scratch
};

}  // namespace verbatim::softnic

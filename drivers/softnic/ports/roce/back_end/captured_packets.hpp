// A back end that writes what the wire carries to a capture file. It sends no runs. Threads: as
// PacketBackEnd.
#pragma once

#include <memory>
#include <utility>

#include "../packets/packet_checksum.hpp"
#include "../packets/packet_headers.hpp"
#include "capture_file.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class CapturedPackets final : public PacketBackEnd {
  public:
    // The file outlives this.
    CapturedPackets(std::unique_ptr<PacketBackEnd> inner, CaptureFile& file, const StreamPlace& own,
                    const StreamPlace& peer) noexcept
        : inner_(std::move(inner)),
          file_(file),
          outgoing_(own, peer),
          incoming_(peer, own),
          checksum_(peer, own) {}

    int file() const noexcept override { return inner_->file(); }
    std::size_t receive(std::span<std::byte> into, std::size_t each,
                        std::span<std::size_t> lengths) noexcept override;
    std::uint32_t marked() const noexcept override { return inner_->marked(); }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;
    std::uint32_t refusals() const noexcept override { return inner_->refusals(); }
    std::uint64_t foreign() const noexcept override { return inner_->foreign(); }
    std::uint64_t unseen() const noexcept override { return inner_->unseen(); }

  private:
    const std::unique_ptr<PacketBackEnd> inner_;
    CaptureFile& file_;
    const PacketHeaders outgoing_, incoming_;
    const PacketChecksum checksum_;  // of what comes in
};

}  // namespace verbatim::softnic

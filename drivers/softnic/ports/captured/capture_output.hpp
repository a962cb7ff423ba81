// A back end that keeps packets in a capture file and sends none. Threads: as PacketBackEnd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "../roce/back_end/capture_file.hpp"
#include "../roce/back_end/packet_back_end.hpp"
#include "../roce/packets/packet_headers.hpp"

namespace verbatim::softnic {

class CaptureOutput final : public PacketBackEnd {
  public:
    // The file outlives this.
    CaptureOutput(CaptureFile& file, CaptureFile::Direction direction, const StreamPlace& from,
                  const StreamPlace& to) noexcept
        : file_(file), direction_(direction), headers_(from, to) {}

    int file() const noexcept override { return -1; }
    std::size_t receive(std::span<std::byte>, std::size_t,
                        std::span<std::size_t>) noexcept override {
        return 0;
    }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override {
        for (const PacketPieces& packet : packets) file_.add(direction_, headers_, packet);
        return packets.size();
    }
    std::uint32_t refusals() const noexcept override { return 0; }
    std::uint64_t foreign() const noexcept override { return 0; }

  private:
    CaptureFile& file_;
    const CaptureFile::Direction direction_;
    const PacketHeaders headers_;
};

}  // namespace verbatim::softnic

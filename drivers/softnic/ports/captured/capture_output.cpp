// Packets with the headers that they would have had.
#include "capture_output.hpp"

#include <array>

namespace verbatim::softnic {

std::size_t CaptureOutput::send(std::span<const PacketPieces> packets) noexcept {
    std::array<std::byte, PacketHeaders::kMostBytes> headers;
    for (const PacketPieces& packet : packets) {
        std::size_t bytes = 0;
        for (const iovec& piece : packet) bytes += piece.iov_len;
        file_.add(direction_, headers_.write(headers, bytes), packet);
    }
    return packets.size();
}

}  // namespace verbatim::softnic

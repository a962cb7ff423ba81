// A capture file keeps packets in the pcapng format, as Wireshark reads it
// (draft-ietf-opsawg-pcapng). Several processes may write to one file. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../../../host/descriptor.hpp"
#include "../packets/packet_headers.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class CaptureFile {
  public:
    // Appends a section to the file, which is made if it is not there. Throws
    // Error(invalid_argument).
    explicit CaptureFile(const std::string& path);

    enum class Direction : std::uint32_t { inbound = 1, outbound = 2 };
    // A datagram with these headers. One system call, which is one block. What fails is left out.
    void add(Direction direction, const PacketHeaders& headers, PacketPieces datagram) noexcept;

  private:
    Descriptor file_;
};

}  // namespace verbatim::softnic

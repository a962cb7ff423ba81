// A packet back end carries datagrams between two queue pairs, without order, and may lose them.
// One thread at a time, but for file(): the one inside the flow's gate. No member blocks, allocates
// or throws.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::softnic {

// A datagram that is sent: its pieces, and the identification of its IPv4 header, which the
// checksum covers. Those behind the first one of a run have one.
struct PacketPieces : std::span<const iovec> {
    using std::span<const iovec>::span;
    PacketPieces(std::span<const iovec> pieces, std::uint16_t in_header = 0) noexcept
        : std::span<const iovec>(pieces), identification(in_header) {}
    std::size_t bytes() const noexcept {
        std::size_t sum = 0;
        for (const iovec& piece : *this) sum += piece.iov_len;
        return sum;
    }
    std::uint16_t identification = 0;
};

class PacketBackEnd {
  public:
    PacketBackEnd() = default;
    virtual ~PacketBackEnd() = default;
    PacketBackEnd(const PacketBackEnd&) = delete;
    PacketBackEnd& operator=(const PacketBackEnd&) = delete;

    // Readable where a datagram waits. It is asked for again each time before it is watched.
    virtual int file() const noexcept = 0;
    // Fills buffers of `each` bytes, one behind the other in `into`, with the peer's datagrams, and
    // their lengths; 0: it is another's, or too long, which is counted. Returns how many came.
    virtual std::size_t receive(std::span<std::byte> into, std::size_t each,
                                std::span<std::size_t> lengths) noexcept = 0;
    // Bit n: datagram n of the last receive() came with a mark of congestion.
    virtual std::uint32_t marked() const noexcept { return 0; }
    // Datagrams of one length that follow each other may be a run, whose identifications count
    // from 0: they can leave as one.
    virtual bool sends_runs() const noexcept { return false; }
    // Returns how many of them were taken; the rest is to be given again.
    virtual std::size_t send(std::span<const PacketPieces> packets) noexcept = 0;
    // The peer's kernel said that nobody has its socket: how often since something came from it.
    virtual std::uint32_t refusals() const noexcept = 0;
    // Datagrams of others, and such that were too long.
    virtual std::uint64_t foreign() const noexcept = 0;
    // Those of others that the kernel dropped itself. Any thread; not on the data path.
    virtual std::uint64_t unseen() const noexcept { return 0; }
};

// A back end that only sends: what arrives goes another way.
class PacketSender : public PacketBackEnd {
  public:
    int file() const noexcept override { return -1; }
    std::size_t receive(std::span<std::byte>, std::size_t,
                        std::span<std::size_t>) noexcept override {
        return 0;
    }
    // Nobody says so, or not of which queue pair.
    std::uint32_t refusals() const noexcept override { return 0; }
    std::uint64_t foreign() const noexcept override { return 0; }
};

}  // namespace verbatim::softnic

// Blocks of pcapng files.
#include "capture_file.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <span>

#include <fmt/format.h>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

struct SectionBlock {
    std::uint32_t type = 0x0a0d0d0a, bytes = 28, byte_order = 0x1a2b3c4d;
    std::uint16_t major = 1, minor = 0;
    std::uint32_t section_bytes[2] = {0xffffffff, 0xffffffff};  // not told
    std::uint32_t end = 28;
};
// The only interface: IP packets without a link layer, times in nanoseconds.
struct InterfaceBlock {
    std::uint32_t type = 1, bytes = 32;
    std::uint16_t link_type = 101, zero = 0;
    std::uint32_t longest = 0;                           // no limit
    std::uint16_t resolution = 9, resolution_bytes = 1;  // option if_tsresol
    std::uint8_t nanoseconds = 9, padding[3] = {};
    std::uint32_t last_option = 0, end = 32;
};
struct PacketBlock {
    std::uint32_t type = 6, bytes = 0, interface = 0, high = 0, low = 0, captured = 0, length = 0;
};
struct PacketBlockEnd {
    std::uint16_t flags = 2, flags_bytes = 4;  // option epb_flags
    std::uint32_t direction = 0, last_option = 0, bytes = 0;
};
static_assert(sizeof(SectionBlock) == 28 && sizeof(InterfaceBlock) == 32);
static_assert(sizeof(PacketBlock) == 28 && sizeof(PacketBlockEnd) == 16);

struct FirstBlocks {
    SectionBlock section;
    InterfaceBlock interface;
};

std::uint64_t nanoseconds_now() noexcept {
    constexpr std::uint64_t kBillion = 1000000000;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kBillion +
           static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

CaptureFile::CaptureFile(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) {
    const FirstBlocks first;
    if (!file_ || write(file_.get(), &first, sizeof first) != ssize_t{sizeof first})
        throw Error(Errc::invalid_argument, fmt::format("capture file {}", path), errno_text(errno),
                    "name a file that can be written");
}

void CaptureFile::add(Direction direction, const PacketHeaders& headers,
                      PacketPieces datagram) noexcept {
    constexpr std::size_t kMostPieces = 8;
    std::array<iovec, kMostPieces + 4> pieces;
    if (datagram.size() > kMostPieces) return;
    PacketBlock block;
    std::size_t count = 2, bytes = 0;
    for (const iovec& piece : datagram) {
        pieces[count++] = piece;
        bytes += piece.iov_len;
    }
    std::array<std::byte, PacketHeaders::kMostBytes> room;
    const std::span<const std::byte> before = headers.write(room, bytes, datagram.identification);
    bytes += before.size();
    pieces[0] = {&block, sizeof block};
    pieces[1] = {const_cast<std::byte*>(before.data()), before.size()};
    const std::uint32_t zero = 0;
    const std::size_t padding = -bytes & 3;
    PacketBlockEnd end;
    pieces[count++] = {const_cast<std::uint32_t*>(&zero), padding};
    pieces[count++] = {&end, sizeof end};
    const std::uint64_t now = nanoseconds_now();
    block.high = static_cast<std::uint32_t>(now >> 32);
    block.low = static_cast<std::uint32_t>(now);
    block.captured = block.length = static_cast<std::uint32_t>(bytes);
    block.bytes = end.bytes =
        static_cast<std::uint32_t>(sizeof block + bytes + padding + sizeof end);
    end.direction = static_cast<std::uint32_t>(direction);
    if (writev(file_.get(), pieces.data(), static_cast<int>(count)) < 0) return;
}

}  // namespace verbatim::softnic

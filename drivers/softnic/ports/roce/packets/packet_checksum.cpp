// The headers that the checksum covers.
#include "packet_checksum.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "hidden_identification.hpp"
#include "packet.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::byte kOnesByte{0xff};
constexpr std::size_t kCongestionByte = 4;  // of the base header

void put_be16(std::byte* to, std::size_t value) noexcept {
    to[0] = static_cast<std::byte>(value >> 8);
    to[1] = static_cast<std::byte>(value);
}

// Of its two bytes and zeros.
std::uint32_t checksum_of_identification(std::size_t identification, std::size_t behind) noexcept {
    static constexpr std::array<std::byte, 256> kZeros{};
    std::array<std::byte, 2> bytes;
    put_be16(bytes.data(), identification);
    std::uint32_t crc = crc32(0, bytes.data(), bytes.size());
    for (std::size_t part = 0; behind != 0; behind -= part) {
        part = std::min(behind, kZeros.size());
        crc = crc32(crc, kZeros.data(), part);
    }
    return crc;
}

}  // namespace

PacketChecksum::PacketChecksum(const StreamPlace& from, const StreamPlace& to,
                               std::uint16_t identification) noexcept {
    constexpr std::byte kUdp{17}, kVersion4{0x45}, kVersion6{0x6f}, kNoFragments{0x40};
    constexpr std::size_t kMappedBytes = 12;
    std::fill_n(header_.begin(), kOnes, kOnesByte);
    std::byte* const ip = header_.data() + kOnes;
    if (is_mapped(from)) {
        ip_bytes_ = kIpv4Bytes;
        ip[0] = kVersion4;
        put_be16(ip + 4, identification);
        ip[6] = kNoFragments;
        ip[9] = kUdp;
        for (const int changes : {1, 8, 10, 11}) ip[changes] = kOnesByte;
        std::memcpy(ip + 12, from.address.data() + kMappedBytes, 4);
        std::memcpy(ip + 16, to.address.data() + kMappedBytes, 4);
    } else {
        ip_bytes_ = kIpv6Bytes;
        ip[0] = kVersion6;
        ip[6] = kUdp;
        for (const int changes : {1, 2, 3, 7}) ip[changes] = kOnesByte;
        std::memcpy(ip + 8, from.address.data(), 16);
        std::memcpy(ip + 24, to.address.data(), 16);
    }
    std::byte* const udp = ip + ip_bytes_;
    put_be16(udp, from.port);
    put_be16(udp + 2, to.port);
    udp[6] = udp[7] = kOnesByte;  // the checksum
}

PacketChecksum PacketChecksum::with_runs(const StreamPlace& from, const StreamPlace& to,
                                         std::size_t datagram_bytes) noexcept {
    PacketChecksum result(from, to);
    result.runs_.bytes = datagram_bytes;
    if (result.ip_bytes_ != kIpv4Bytes || datagram_bytes == 0) return result;
    auto& changes = result.runs_.changes;
    const std::size_t behind = kBehindIdentification + datagram_bytes - kChecksumBytes;
    const std::uint32_t none = checksum_of_identification(0, behind);
    for (std::size_t i = 1; i < changes.size(); ++i)  // linear: each bit by itself
        changes[i] = (i & (i - 1)) != 0 ? changes[i & (i - 1)] ^ changes[i & -i]
                                        : checksum_of_identification(i, behind) ^ none;
    return result;
}

void PacketChecksum::set_length(std::span<std::byte> header,
                                std::size_t datagram_bytes) const noexcept {
    const std::size_t udp_bytes = kUdpBytes + datagram_bytes;
    std::byte* const ip = header.data() + kOnes;
    if (ip_bytes_ == kIpv4Bytes)
        put_be16(ip + 2, kIpv4Bytes + udp_bytes);
    else
        put_be16(ip + 4, udp_bytes);
    put_be16(ip + ip_bytes_ + 4, udp_bytes);
}

// Most packets are as long as the one before.
std::uint32_t PacketChecksum::of_header(std::size_t datagram_bytes) const noexcept {
    constexpr int kBytesShift = 32;
    const std::atomic_ref<std::uint64_t> last(last_);
    const std::uint64_t known = last.load(std::memory_order_relaxed);
    if (known >> kBytesShift == datagram_bytes) return static_cast<std::uint32_t>(known);
    auto header = header_;
    set_length(header, datagram_bytes);
    const std::uint32_t crc = crc32(0, header.data(), kOnes + ip_bytes_ + kUdpBytes);
    last.store(std::uint64_t{datagram_bytes} << kBytesShift | crc, std::memory_order_relaxed);
    return crc;
}

std::uint32_t PacketChecksum::of(std::span<const iovec> pieces) const noexcept {
    std::size_t bytes = kChecksumBytes;
    for (const iovec& piece : pieces) bytes += piece.iov_len;
    std::uint32_t crc = of_header(bytes);
    std::array<std::byte, sizeof(BaseHeader)> base;
    const auto* const first = static_cast<const std::byte*>(pieces[0].iov_base);
    std::memcpy(base.data(), first, base.size());
    base[kCongestionByte] = kOnesByte;
    crc = crc32(crc, base.data(), base.size());
    crc = crc32(crc, first + base.size(), pieces[0].iov_len - base.size());
    for (const iovec& piece : pieces.subspan(1))
        crc = crc32(crc, static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
    return crc;
}

// From the checksum without an identification. None: too short.
std::optional<std::uint32_t> PacketChecksum::difference(
    std::span<const std::byte> datagram) const noexcept {
    if (datagram.size() < sizeof(BaseHeader) + kChecksumBytes) return std::nullopt;
    const std::size_t bytes = datagram.size() - kChecksumBytes;
    const iovec piece{const_cast<std::byte*>(datagram.data()), bytes};
    std::uint32_t sent;
    std::memcpy(&sent, datagram.data() + bytes, sizeof sent);
    return sent ^ of(std::span(&piece, 1));
}

// One of 2^28 changed packets of a run passes, of others one of 2^32.
bool PacketChecksum::fits(std::span<const std::byte> datagram) const noexcept {
    const std::optional<std::uint32_t> changed = difference(datagram);
    if (!changed || *changed == 0) return changed.has_value();
    return datagram.size() == runs_.bytes &&
           std::find(runs_.changes.begin(), runs_.changes.end(), *changed) != runs_.changes.end();
}

std::optional<std::uint16_t> PacketChecksum::identification_of(
    std::span<const std::byte> datagram) const noexcept {
    const std::optional<std::uint32_t> changed = difference(datagram);
    if (!changed) return std::nullopt;
    if (*changed == 0) return std::uint16_t{0};
    if (ip_bytes_ != kIpv4Bytes) return std::nullopt;
    return hidden_identification(*changed,
                                 kBehindIdentification + datagram.size() - kChecksumBytes);
}

}  // namespace verbatim::softnic

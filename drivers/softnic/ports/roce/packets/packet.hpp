// A packet is what the udp port sends in one datagram: RoCEv2 behind its UDP header (docs/
// roce-port.md). Formats: InfiniBand Architecture Specification, volume 1, release 1.4, chapter 9.
// Nothing of a received packet is used before parse_packet() has checked it. Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <verbatim/mlx5/endian.hpp>

namespace verbatim::softnic {

enum class PacketOpcode : std::uint8_t {
    send_first = 0x00,
    send_middle,
    send_last,
    send_last_immediate,
    send_only,
    send_only_immediate,
    write_first,
    write_middle,
    write_last,
    write_last_immediate,
    write_only,
    write_only_immediate,
    read_request,
    response_first,
    response_middle,
    response_last,
    response_only,
    acknowledge,
    atomic_acknowledge,
    compare_swap,
    fetch_add,
    send_last_invalidate = 0x16,
    send_only_invalidate,
    datagram = 0x64,  // of UD
    datagram_immediate,
    congestion_notice = 0x81,  // CNP
    // Of our own, in the range for manufacturers.
    state = 0xc0,
    masked_atomic,
    probe,
};

// A value of 64 bits where only 32 are aligned.
struct SplitWord {
    mlx5::be32 high, low;

    SplitWord() = default;
    explicit SplitWord(std::uint64_t value) noexcept
        : high(static_cast<std::uint32_t>(value >> 32)), low(static_cast<std::uint32_t>(value)) {}
    std::uint64_t native() const noexcept {
        return std::uint64_t{high.native()} << 32 | low.native();
    }
};

// BTH.
struct BaseHeader {
    std::uint8_t opcode = 0;
    std::uint8_t flags = 0;  // [7] solicited, [6] migrated, [5:4] bytes of padding, [3:0] version
    mlx5::be16 partition;
    mlx5::be32 queue_pair;  // [31:24] congestion marks
    mlx5::be32 sequence;    // [31] asks for an acknowledgement
};
// RETH.
struct RemoteHeader {
    SplitWord address;
    mlx5::be32 key, bytes;
};
// AtomicETH.
struct AtomicHeader {
    SplitWord address;
    mlx5::be32 key;
    SplitWord swap_or_add, compare;
};
// AETH.
struct AnswerHeader {
    mlx5::be32 word;  // [31:24] syndrome, [23:0] messages so far
};
// AtomicAckETH.
struct AtomicAnswerHeader {
    AnswerHeader answer;
    SplitWord before;
};
// DETH.
struct DatagramHeader {
    mlx5::be32 queue_key;
    mlx5::be32 source;  // [23:0] the sender's queue pair
};
// ImmDt, and IETH: both as the work request has them.
struct ImmediateHeader {
    std::uint32_t raw = 0;
};
// Behind a congestion notice: reserved.
struct NoticeHeader {
    std::array<std::uint8_t, 16> zero{};
};
// Of our own: a queue pair's state.
struct StateHeader {
    std::uint8_t state = 0;    // ReceiverState
    std::uint8_t flags = 0;    // kGivesUp, kWantsAnswer, kWantsAcknowledgement
    std::uint8_t refused = 0;  // 0, or the syndrome of the packet after those acknowledged
    std::uint8_t zero = 0;
};
inline constexpr std::uint8_t kGivesUp = 1, kWantsAnswer = 2, kWantsAcknowledgement = 4;
// Of our own: a question whether packets arrive, and its answer.
struct ProbeHeader {
    mlx5::be32 asks;  // 1: a question
};
static_assert(sizeof(ProbeHeader) == 4);

static_assert(sizeof(BaseHeader) == 12 && sizeof(RemoteHeader) == 16 && sizeof(AtomicHeader) == 28);
static_assert(sizeof(AnswerHeader) == 4 && sizeof(AtomicAnswerHeader) == 12);
static_assert(sizeof(DatagramHeader) == 8);
static_assert(sizeof(ImmediateHeader) == 4 && sizeof(StateHeader) == 4);
static_assert(std::is_trivially_copyable_v<AtomicHeader> && alignof(AtomicHeader) == 4);

inline constexpr std::uint8_t kSolicitedPacket = 0x80, kMigratedPacket = 0x40;
inline constexpr std::uint32_t kAsksForAcknowledgement = 1u << 31, kSequenceMask = 0xffffff;
// In the word of the queue pair: the peer's packets came with marks of congestion (BECN).
inline constexpr std::uint32_t kBackwardCongestion = 1u << 30;
inline constexpr std::uint16_t kDefaultPartition = 0xffff;
inline constexpr std::uint16_t kRocePort = 4791;  // of UDP; annex A17.4 of the specification
inline constexpr std::size_t kChecksumBytes = 4;  // ICRC, behind everything
inline constexpr std::size_t kMaskedAtomicBody = 56;
// Only atomic operations have as much behind the base header.
inline constexpr std::size_t kMinAtomic = sizeof(AtomicHeader);
inline constexpr unsigned kMinMtuLog2 = 8, kMaxMtuLog2 = 12;
inline constexpr std::size_t kMaxPacketPayload = 1 << kMaxMtuLog2;
// The path MTU, log2, where IP packets have so many bytes at most. The headers of a packet are
// shorter than what is left for them.
constexpr unsigned path_mtu_log2(std::size_t ip_bytes) noexcept {
    constexpr std::size_t kHeaders = 128;
    const std::size_t carried = std::max(ip_bytes, 2 * kHeaders) - kHeaders;
    return std::clamp(static_cast<unsigned>(std::bit_width(carried)) - 1, kMinMtuLog2, kMaxMtuLog2);
}
// The longest of all headers: those of a masked atomic operation.
inline constexpr std::size_t kMaxPacketBytes =
    sizeof(BaseHeader) + kMaskedAtomicBody + kMaxPacketPayload + kChecksumBytes;

// Syndromes of AnswerHeader.
inline constexpr std::uint8_t kAcknowledged = 0x1f;  // without a count of credits
inline constexpr std::uint8_t kNotReady = 0x20;      // [4:0] a code of time
inline constexpr std::uint8_t kWrongSequence = 0x60, kWrongRequest = 0x61, kNoAccess = 0x62,
                              kFailedOperation = 0x63;

// What an opcode carries.
struct PacketShape {
    enum class Payload : std::uint8_t { none, full, some, any };  // full: the path MTU
    std::uint8_t extended = 0;                                    // bytes of extended headers
    Payload payload = Payload::none;
    bool known = false;
    bool answers = false;              // comes from a responder
    bool first = false, last = false;  // of a message
};
PacketShape shape_of(std::uint8_t opcode) noexcept;

struct WirePacket {
    PacketOpcode opcode{};
    PacketShape shape;
    bool solicited = false, asks = false;
    std::uint32_t queue_pair = 0;
    std::uint32_t sequence = 0;  // PSN
    std::span<const std::byte> extended, payload;

    // A header at the start of the extended ones, or behind `skip` bytes; the shape says that it is
    // there.
    template <class Header>
    Header read(std::size_t skip = 0) const noexcept {
        static_assert(std::is_trivially_copyable_v<Header>);
        Header result;
        __builtin_memcpy(&result, extended.data() + skip, sizeof result);
        return result;
    }
};

// What a UDP datagram carries; `mtu`: the path MTU in bytes. False: it is no packet of connected
// queue pairs. Its checksum was not looked at.
bool parse_packet(std::span<const std::byte> datagram, std::size_t mtu,
                  WirePacket& packet) noexcept;
// The same of datagram queue pairs, whose messages are packets.
bool parse_message(std::span<const std::byte> datagram, std::size_t mtu,
                   WirePacket& packet) noexcept;

}  // namespace verbatim::softnic

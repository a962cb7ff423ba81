// The formats are work queue entries and completion queue entries, bit for bit. Source: PRM, "Work
// Requests (WQE)" and "Completion Queue Entry"; the same layouts are public in rdma-core's
// mlx5dv.h, against which the tests compare. Plain data: nothing here knows queues. Bit ranges are
// given as [high:low] of the big-endian word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/endian.hpp>

namespace verbatim::mlx5 {

// A send queue is made of 64-byte building blocks; sizes inside a WQE count 16-byte units.
inline constexpr std::uint32_t kBlockBytes = 64;
inline constexpr std::uint32_t kUnitBytes = 16;
inline constexpr std::uint32_t kMaxWqeUnits = 63;  // ds is a 6-bit field

// -- Send WQE: control segment, then what the opcode needs
// --------------------------------------------------

// First 16 bytes of every send WQE. Its first 8 bytes are also what an 8-byte doorbell writes.
struct ControlSegment {
    be32 opmod_index_opcode;  // [31:24] opcode modifier, [23:8] first block's counter, [7:0] opcode
    be32 number_units;        // [31:8] queue pair number, [5:0] ds: WQE size in 16-byte units
    std::uint8_t signature = 0;            // used on signature queue pairs only
    std::array<std::uint8_t, 2> stream{};  // DCI stream id, else 0
    std::uint8_t fence_completion_event =
        0;           // [7:5] fence mode, [3:2] completion, [1] solicited event
    be32 immediate;  // or the invalidated key; as it goes on the wire
};
static_assert(sizeof(ControlSegment) == 16 && alignof(ControlSegment) == 4);
static_assert(offsetof(ControlSegment, opmod_index_opcode) == 0);
static_assert(offsetof(ControlSegment, number_units) == 4);
static_assert(offsetof(ControlSegment, signature) == 8);
static_assert(offsetof(ControlSegment, stream) == 9);
static_assert(offsetof(ControlSegment, fence_completion_event) == 11);
static_assert(offsetof(ControlSegment, immediate) == 12);

// Values of ControlSegment::fence_completion_event.
inline constexpr std::uint8_t kSolicited = 1 << 1;
inline constexpr std::uint8_t kCompletionAlways = 2
                                                  << 2;  // a CQE on success too, not only on error
inline constexpr std::uint8_t kSmallFence = 1 << 5;      // after a local invalidate or window bind
inline constexpr std::uint8_t kFence = 4 << 5;           // waits for earlier reads and atomics

constexpr std::uint8_t opcode_of(const ControlSegment& control) noexcept {
    return static_cast<std::uint8_t>(control.opmod_index_opcode.native());
}
// Counter of the WQE's first block, modulo 2^16 for any size of the queue.
constexpr std::uint16_t index_of(const ControlSegment& control) noexcept {
    return static_cast<std::uint16_t>(control.opmod_index_opcode.native() >> 8);
}
constexpr std::uint8_t modifier_of(const ControlSegment& control) noexcept {
    return static_cast<std::uint8_t>(control.opmod_index_opcode.native() >> 24);
}
constexpr std::uint32_t number_of(const ControlSegment& control) noexcept {
    return control.number_units.native() >> 8;
}
constexpr std::uint32_t units_of(const ControlSegment& control) noexcept {
    return control.number_units.native() & kMaxWqeUnits;
}
constexpr std::uint32_t blocks_for_units(std::uint32_t units) noexcept { return (units + 3) / 4; }

// Follows the control segment of RDMA writes and reads and of atomics.
struct RemoteAddressSegment {
    be64 address;
    be32 key;
    be32 reserved;
};
static_assert(sizeof(RemoteAddressSegment) == 16);
static_assert(offsetof(RemoteAddressSegment, address) == 0);
static_assert(offsetof(RemoteAddressSegment, key) == 8);
static_assert(offsetof(RemoteAddressSegment, reserved) == 12);

// Follows the remote address segment of compare-and-swap and fetch-and-add.
struct AtomicSegment {
    be64 swap_or_add;
    be64 compare;
};
static_assert(sizeof(AtomicSegment) == 16);
static_assert(offsetof(AtomicSegment, swap_or_add) == 0);
static_assert(offsetof(AtomicSegment, compare) == 8);

// The same of masked ones of 4 bytes.
struct MaskedSwapSegment {
    be32 swap;
    be32 compare;
    be32 swap_mask;
    be32 compare_mask;
};
static_assert(sizeof(MaskedSwapSegment) == 16);
static_assert(offsetof(MaskedSwapSegment, swap) == 0);
static_assert(offsetof(MaskedSwapSegment, compare) == 4);
static_assert(offsetof(MaskedSwapSegment, swap_mask) == 8);
static_assert(offsetof(MaskedSwapSegment, compare_mask) == 12);

struct MaskedAddSegment {
    be32 add;
    be32 field_ends;
    be64 reserved;
};
static_assert(sizeof(MaskedAddSegment) == 16);
static_assert(offsetof(MaskedAddSegment, add) == 0);
static_assert(offsetof(MaskedAddSegment, field_ends) == 4);
static_assert(offsetof(MaskedAddSegment, reserved) == 8);

// Of 8 bytes: swap and compare, then both masks in a second segment; or addend and ends of fields.
struct MaskedSwapSegments8 {
    be64 swap;
    be64 compare;
    be64 swap_mask;
    be64 compare_mask;
};
static_assert(sizeof(MaskedSwapSegments8) == 32);
static_assert(offsetof(MaskedSwapSegments8, swap) == 0);
static_assert(offsetof(MaskedSwapSegments8, compare) == 8);
static_assert(offsetof(MaskedSwapSegments8, swap_mask) == 16);
static_assert(offsetof(MaskedSwapSegments8, compare_mask) == 24);

struct MaskedAddSegment8 {
    be64 add;
    be64 field_ends;
};
static_assert(sizeof(MaskedAddSegment8) == 16);
static_assert(offsetof(MaskedAddSegment8, add) == 0);
static_assert(offsetof(MaskedAddSegment8, field_ends) == 8);

// Opcode modifier of masked atomics: 8 and how often 4 must be doubled for the operands' size.
inline constexpr std::uint8_t kMaskedModifier = 8;
inline constexpr std::uint8_t kMaskedModifier4 = kMaskedModifier;
inline constexpr std::uint8_t kMaskedModifier8 = kMaskedModifier + 1;

// Follows the control segment of an XRC initiator's requests (PRM, "XRC Segment"). Our own queues
// send none; the software NIC reads libmlx5's.
struct XrcSegment {
    be32 shared_receive_queue;  // [23:0] the peer's number
    be32 reserved0;
    be64 reserved1;
};
static_assert(sizeof(XrcSegment) == 16);
static_assert(offsetof(XrcSegment, shared_receive_queue) == 0);

// Follows the control segment of every send of a datagram queue pair (PRM, "Address Vector").
struct DatagramSegment {
    be32 queue_key;
    be32 reserved0;
    be32 extended_number;            // [31] 1: the fields from `mac` on are there, [23:0] peer
    std::uint8_t rate_priority = 0;  // [7:4] static rate, 0: the port's; [3:1] priority
    std::uint8_t path_bits = 0;      // of the source
    be16 destination;                // local id, or over Ethernet the UDP source port
    be32 reserved1;
    std::array<std::uint8_t, 6> mac{};
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    be32 route;  // [30] InfiniBand only: there is a GID, [27:20] index of the source's, [19:0] flow
    std::array<std::uint8_t, 16> gid{};
};
static_assert(sizeof(DatagramSegment) == 48);
static_assert(offsetof(DatagramSegment, queue_key) == 0);
static_assert(offsetof(DatagramSegment, reserved0) == 4);
static_assert(offsetof(DatagramSegment, extended_number) == 8);
static_assert(offsetof(DatagramSegment, rate_priority) == 12);
static_assert(offsetof(DatagramSegment, path_bits) == 13);
static_assert(offsetof(DatagramSegment, destination) == 14);
static_assert(offsetof(DatagramSegment, reserved1) == 16);
static_assert(offsetof(DatagramSegment, mac) == 20);
static_assert(offsetof(DatagramSegment, traffic_class) == 26);
static_assert(offsetof(DatagramSegment, hop_limit) == 27);
static_assert(offsetof(DatagramSegment, route) == 28);
static_assert(offsetof(DatagramSegment, gid) == 32);
inline constexpr std::uint32_t kExtendedAddress = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kFlowLabelMask = 0xfffff;

// One gathered (send queue) or scattered (receive queue, read) piece of memory.
struct DataSegment {
    be32 byte_count;  // [31] 0, [30:0] bytes; 0 stands for 2^31
    be32 key;
    be64 address;
};
static_assert(sizeof(DataSegment) == 16);
static_assert(offsetof(DataSegment, byte_count) == 0);
static_assert(offsetof(DataSegment, key) == 4);
static_assert(offsetof(DataSegment, address) == 8);

// Ends a receive WQE's list that is shorter than its stride (with byte_count 0).
inline constexpr std::uint32_t kInvalidKey = 0x100;
inline constexpr std::uint32_t kMaxElementBytes = std::uint32_t{1} << 31;

// Instead of data segments: the payload itself follows this header, padded to 16 bytes. It wraps
// with the ring.
struct InlineHeader {
    be32 byte_count;  // [31] 1, [9:0] bytes
};
static_assert(sizeof(InlineHeader) == 4 && offsetof(InlineHeader, byte_count) == 0);
inline constexpr std::uint32_t kInlineFlag = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kInlineCountMask = 0x3ff;

// -- Updates of a memory key (UMR): local invalidation and windows

// Follows the control segment, whose immediate is the key as it is before.
struct KeyUpdateSegment {
    std::uint8_t flags = 0;
    std::array<std::uint8_t, 3> reserved0{};
    be16 translation_units;  // of 16 bytes, that follow the key segment
    be16 translation_offset;
    be64 mask;  // which fields of the key change
    std::array<std::uint8_t, 32> reserved1{};
};
static_assert(sizeof(KeyUpdateSegment) == 48);
static_assert(offsetof(KeyUpdateSegment, flags) == 0);
static_assert(offsetof(KeyUpdateSegment, reserved0) == 1);
static_assert(offsetof(KeyUpdateSegment, translation_units) == 4);
static_assert(offsetof(KeyUpdateSegment, translation_offset) == 6);
static_assert(offsetof(KeyUpdateSegment, mask) == 8);
static_assert(offsetof(KeyUpdateSegment, reserved1) == 16);

// Values of KeyUpdateSegment::flags.
inline constexpr std::uint8_t kUpdateInline = 1 << 7;     // the translation follows in the WQE
inline constexpr std::uint8_t kUpdateCheckFree = 1 << 5;  // fails if the key is in use
inline constexpr std::uint8_t kUpdateTranslationOffset = 1 << 4;
inline constexpr std::uint8_t kUpdateCheckQueuePair = 1 << 3;  // fails if it is another's
// Bits of KeyUpdateSegment::mask.
inline constexpr std::uint64_t kMaskBytes = 1 << 0;
inline constexpr std::uint64_t kMaskStart = 1 << 6;
inline constexpr std::uint64_t kMaskVariant = 1 << 13;  // low byte of the key
inline constexpr std::uint64_t kMaskQueuePair = 1 << 14;
inline constexpr std::uint64_t kMaskAccess = 0xf << 18;
inline constexpr std::uint64_t kMaskFree = 1 << 29;

// Follows it: the key as it is to be.
struct KeySegment {
    std::uint8_t free = 0;  // [6] not in use
    std::uint8_t reserved0 = 0;
    std::uint8_t access = 0;  // [6] atomic, [5] remote write, [4] remote read
    std::uint8_t reserved1 = 0;
    be32 queue_pair_variant;  // [31:8] queue pair, all ones: any; [7:0] low byte of the key
    be32 reserved2;
    be32 domain;
    be64 start;
    be64 bytes;
    std::array<std::uint8_t, 32> reserved3{};
};
static_assert(sizeof(KeySegment) == 64);
static_assert(offsetof(KeySegment, free) == 0);
static_assert(offsetof(KeySegment, reserved0) == 1);
static_assert(offsetof(KeySegment, access) == 2);
static_assert(offsetof(KeySegment, reserved1) == 3);
static_assert(offsetof(KeySegment, queue_pair_variant) == 4);
static_assert(offsetof(KeySegment, reserved2) == 8);
static_assert(offsetof(KeySegment, domain) == 12);
static_assert(offsetof(KeySegment, start) == 16);
static_assert(offsetof(KeySegment, bytes) == 24);
static_assert(offsetof(KeySegment, reserved3) == 32);
inline constexpr std::uint8_t kKeyFree = 1 << 6;
inline constexpr std::uint8_t kKeyRemoteRead = 1 << 4;
inline constexpr std::uint8_t kKeyRemoteWrite = 1 << 5;
inline constexpr std::uint8_t kKeyRemoteAtomic = 1 << 6;
inline constexpr std::uint32_t kAnyQueuePair = 0xffffff;

// Of a window that opens, a DataSegment follows (where the window leads), padded to this much.
inline constexpr std::uint32_t kTranslationBytes = 64;

// -- Receive WQE
// --------------------------------------------------------------------------------------------

// A plain receive WQE is DataSegments only. One of a shared receive queue starts with this link.
struct SharedReceiveNextSegment {
    std::array<std::uint8_t, 2> reserved0{};
    be16 next_index;
    std::uint8_t signature = 0;
    std::array<std::uint8_t, 11> reserved1{};
};
static_assert(sizeof(SharedReceiveNextSegment) == 16);
static_assert(offsetof(SharedReceiveNextSegment, next_index) == 2);
static_assert(offsetof(SharedReceiveNextSegment, signature) == 4);
static_assert(offsetof(SharedReceiveNextSegment, reserved1) == 5);

// -- CQE
// ----------------------------------------------------------------------------------------------------

enum class CqeOpcode : std::uint8_t {
    requester = 0,         // a send queue entry finished
    write_immediate = 1,   // responder: an RDMA write with immediate arrived
    send = 2,              // responder: a send arrived
    send_immediate = 3,    // responder: a send with immediate arrived
    send_invalidate = 4,   // responder: a send that invalidated a key arrived
    resized = 5,           // the queue goes on in another buffer, one entry further
    requester_error = 13,  // ErrorCqe: a send queue entry failed or was flushed
    responder_error = 14,  // ErrorCqe: a receive queue entry failed or was flushed
    invalid = 15,          // never written by the device: marks entries it has not reached yet
};

// op_own: [7:4] CqeOpcode, [3:2] format, [1] solicited event, [0] owner phase.
inline constexpr std::uint8_t kOwnerMask = 1;
inline constexpr std::uint8_t kFormatMask = 3 << 2;
inline constexpr std::uint8_t kInlineScatter32 = 1 << 2;  // the data lies in bytes 0..31 of the CQE
inline constexpr std::uint8_t kInlineScatter64 =
    2 << 2;  // ... in the 64 bytes before it (128-byte CQEs)
constexpr CqeOpcode cqe_opcode(std::uint8_t op_own) noexcept {
    return static_cast<CqeOpcode>(op_own >> 4);
}
constexpr std::uint8_t make_op_own(CqeOpcode opcode, bool owner, std::uint8_t format = 0) noexcept {
    return static_cast<std::uint8_t>((static_cast<unsigned>(opcode) << 4) | format |
                                     (owner ? 1U : 0U));
}

struct Cqe {
    std::array<std::byte, 32>
        scatter{};              // received bytes (kInlineScatter32), else transport fields
    be32 shared_receive_index;  // [23:0] SRQ number or user index
    be32 immediate;             // immediate or invalidated key, as it came from the wire
    std::uint8_t app = 0;
    std::uint8_t app_op = 0;
    be16 app_info;
    be32 byte_count;  // received, or read
    be64 timestamp;
    be32 opcode_number;  // [31:24] the finished WQE's opcode (requester), [23:0] queue pair
    be16 wqe_counter;    // the WQE's first block, or the receive queue's entry
    std::uint8_t signature = 0;
    std::uint8_t op_own = 0xf0;  // written last
};
static_assert(sizeof(Cqe) == 64 && alignof(Cqe) == 8);
static_assert(offsetof(Cqe, scatter) == 0);
static_assert(offsetof(Cqe, shared_receive_index) == 32);
static_assert(offsetof(Cqe, immediate) == 36);
static_assert(offsetof(Cqe, app) == 40);
static_assert(offsetof(Cqe, app_op) == 41);
static_assert(offsetof(Cqe, app_info) == 42);
static_assert(offsetof(Cqe, byte_count) == 44);
static_assert(offsetof(Cqe, timestamp) == 48);
static_assert(offsetof(Cqe, opcode_number) == 56);
static_assert(offsetof(Cqe, wqe_counter) == 60);
static_assert(offsetof(Cqe, signature) == 62);
static_assert(offsetof(Cqe, op_own) == 63);

// The sender of a received message whose data are not in Cqe::scatter. [29:28] not 0: a global
// route precedes the payload. [27] the message came over UDP. [26:24] kind of the route. [23:0] the
// sender's queue pair, of a datagram.
inline constexpr std::size_t kCqeSenderOffset = 24;
inline constexpr std::uint32_t kSenderHasRoute = 1u << 28, kSenderRouteMask = 3u << 28,
                               kSenderOverUdp = 1u << 27, kSenderIpv6Route = 1u << 24,
                               kSenderIpv4Route = 2u << 24;
inline be32 cqe_sender(const Cqe& cqe) noexcept {
    be32 sender;
    std::memcpy(&sender, cqe.scatter.data() + kCqeSenderOffset, sizeof sender);
    return sender;
}

struct ErrorCqe {
    std::array<std::uint8_t, 32> reserved0{};
    be32 shared_receive_index;
    std::array<std::uint8_t, 18> reserved1{};
    std::uint8_t vendor_syndrome = 0;
    std::uint8_t syndrome = 0;
    be32 opcode_number;  // as in Cqe
    be16 wqe_counter;
    std::uint8_t signature = 0;
    std::uint8_t op_own = 0xf0;
};
static_assert(sizeof(ErrorCqe) == 64 && alignof(ErrorCqe) == 4);
static_assert(offsetof(ErrorCqe, reserved0) == 0);
static_assert(offsetof(ErrorCqe, shared_receive_index) == 32);
static_assert(offsetof(ErrorCqe, reserved1) == 36);
static_assert(offsetof(ErrorCqe, vendor_syndrome) == 54);
static_assert(offsetof(ErrorCqe, syndrome) == 55);
static_assert(offsetof(ErrorCqe, opcode_number) == 56);
static_assert(offsetof(ErrorCqe, wqe_counter) == 60);
static_assert(offsetof(ErrorCqe, signature) == 62);
static_assert(offsetof(ErrorCqe, op_own) == 63);

// A 128-byte entry: inline scatter data first, the CQE proper in its second half.
struct Cqe128 {
    std::array<std::byte, 64> scatter{};
    Cqe cqe;
};
static_assert(sizeof(Cqe128) == 128 && offsetof(Cqe128, scatter) == 0 &&
              offsetof(Cqe128, cqe) == 64);

// Owner phase the device writes on its n-th pass: entries start as `invalid`, the first pass writes
// 0.
constexpr bool owner_phase(std::uint32_t counter, std::uint32_t entries) noexcept {
    return (counter & entries) != 0;
}

// The reason why a work request failed (ErrorCqe::syndrome).
enum class Syndrome : std::uint8_t {
    local_length = 0x01,
    local_queue_pair = 0x02,
    local_protection = 0x04,
    flushed = 0x05,
    window_bind = 0x06,
    bad_response = 0x10,
    local_access = 0x11,
    remote_invalid = 0x12,
    remote_access = 0x13,
    remote_operation = 0x14,
    retry_exceeded = 0x15,
    rnr_exceeded = 0x16,
    remote_aborted = 0x22,
};

constexpr Errc to_errc(std::uint8_t syndrome) noexcept {
    switch (static_cast<Syndrome>(syndrome)) {
        case Syndrome::local_length:
            return Errc::local_length;
        case Syndrome::local_queue_pair:
            return Errc::local_queue_pair;
        case Syndrome::local_protection:
        case Syndrome::local_access:
            return Errc::local_protection;
        case Syndrome::flushed:
            return Errc::flushed;
        case Syndrome::window_bind:
            return Errc::local_queue_pair;
        case Syndrome::bad_response:
            return Errc::remote_operation;
        case Syndrome::remote_invalid:
            return Errc::remote_invalid;
        case Syndrome::remote_access:
            return Errc::remote_access;
        case Syndrome::remote_operation:
            return Errc::remote_operation;
        case Syndrome::retry_exceeded:
            return Errc::retry_exceeded;
        case Syndrome::rnr_exceeded:
            return Errc::rnr_exceeded;
        case Syndrome::remote_aborted:
            return Errc::aborted;
    }
    return Errc::aborted;
}

// -- Doorbell records
// ---------------------------------------------------------------------------------------

// Words of a queue pair's record: be32, counters modulo 2^16.
inline constexpr std::size_t kRecordReceive = 0;
inline constexpr std::size_t kRecordSend = 1;
// Word of a shared receive queue's record: be32, how many entries were ever posted modulo 2^16.
inline constexpr std::size_t kRecordShared = 0;
// Words of a completion queue's record: be32, [23:0] consumer index.
inline constexpr std::size_t kRecordConsumer = 0;
inline constexpr std::size_t kRecordArm = 1;
inline constexpr std::uint32_t kConsumerIndexMask = 0xffffff;

// Arming: the record's second word, and the first of the two words (the second is the queue's
// number) that are written to the register. [29:28] how many events came, modulo 4; [24] only of
// solicited completions and errors; [23:0] consumer index.
inline constexpr std::uint32_t kArmSolicited = 1 << 24;
inline constexpr int kArmSequenceShift = 28;
inline constexpr std::uint32_t kArmSequenceMask = 3;
// Where in its page the register lies.
inline constexpr std::size_t kArmRegisterOffset = 0x20;

}  // namespace verbatim::mlx5

// A frame is the unit of a stream between two queue pairs of the tcp port: a header and its body
// (docs/tcp-port.md). Requests and their parts have numbers without gaps, from 1; what answers them
// names those. Nothing of a frame is used before next_frame() has checked it. Threads: any.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace verbatim::softnic {

static_assert(std::endian::native == std::endian::little, "frames are little endian");

inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;

enum class FrameKind : std::uint8_t {
    send = 1,  // a part of a message
    write,     // bytes for the responder's memory
    notice,    // the immediate of a write, behind its bytes
    read,      // a question for bytes of the responder's memory
    atomic,
    give_up,  // no message that is not begun is to be received any more
    words,    // the responder's words about the requests so far
    result,   // of a read or an atomic operation
};

struct FrameHeader {
    std::uint32_t bytes = 0;  // of the whole frame
    FrameKind kind{};
    std::uint8_t flags = 0;  // of a send and a notice; of a result, those of what asked for it
    std::uint16_t zero = 0;
    std::uint64_t number = 0;  // of the request, of the answered one, or 0
};
static_assert(sizeof(FrameHeader) == 16);

inline constexpr std::uint8_t kFirstPart = 1, kLastPart = 2, kCarriesImmediate = 4, kCarriesKey = 8,
                              kSolicitedFrame = 16, kKnownFrameFlags = 31;
// Of reads that are made of packets (ports/roce), and of their results. No stream has them. Again:
// it was answered before.
inline constexpr std::uint8_t kReadPart = 32, kAgainPart = 64;

// Of a send, its payload follows; of a notice.
struct MessageBody {
    std::uint32_t total = 0;      // bytes of the message, or of the write
    std::uint32_t immediate = 0;  // as in the work request; or the key to be invalidated
};
// The bytes follow.
struct WriteBody {
    std::uint64_t address = 0;  // as the key counts
    std::uint32_t key = 0;
    std::uint32_t zero = 0;
};
struct ReadBody {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t bytes = 0;
};
// A responder's words. Each replaces the ones before.
struct WordsBody {
    std::uint64_t taken = 0;         // frames up to this number need not be kept any more
    std::uint64_t acknowledged = 0;  // requests up to this one are done: keys checked, bytes stored
    std::uint64_t not_ready = 0;     // times that a message found no receive
    std::uint64_t not_ready_for = 0;  // nanoseconds that a sender waits for a receive
    std::uint32_t stops = 0;   // times that frames behind `taken` were discarded: send them again
    std::uint8_t stopped = 0;  // 1: not yet
    std::uint8_t waits = 0;    // 1: the message after those acknowledged has no receive
    std::uint8_t refused = 0;  // 0, or the syndrome of the request after those acknowledged
    std::uint8_t state = 0;    // ReceiverState

    bool operator==(const WordsBody&) const = default;
};
static_assert(sizeof(MessageBody) == 8 && sizeof(WriteBody) == 16 && sizeof(ReadBody) == 16 &&
              sizeof(WordsBody) == 40);
inline constexpr std::size_t kAtomicBody = 56;  // RemoteAtomic
inline constexpr std::size_t kAtomicResult = 8;

inline constexpr std::size_t kMaxMessagePart =
    kMaxFrameBytes - sizeof(FrameHeader) - sizeof(MessageBody);
inline constexpr std::size_t kMaxWritePart =
    kMaxFrameBytes - sizeof(FrameHeader) - sizeof(WriteBody);
inline constexpr std::size_t kMaxResult = kMaxFrameBytes - sizeof(FrameHeader);

// A frame in a buffer of received bytes.
struct Frame {
    FrameHeader header;
    std::span<const std::byte> body;
    // Of frames that are made of packets (ports/roce): the payload, if it does not lie behind the
    // body's start; and the immediate of a write, behind its bytes.
    const std::span<const std::byte>* apart = nullptr;
    const MessageBody* notice = nullptr;

    // The start of the body; next_frame() has seen that it is there.
    template <class Body>
    Body read() const noexcept;
    std::span<const std::byte> payload(std::size_t body_bytes) const noexcept {
        return apart != nullptr ? *apart : body.subspan(body_bytes);
    }
    bool has(std::uint8_t flag) const noexcept { return (header.flags & flag) != 0; }
};

enum class FrameState : std::uint8_t { whole, partial, malformed };

// Looks at the first frame of `bytes`.
FrameState next_frame(std::span<const std::byte> bytes, Frame& frame) noexcept;

template <class Body>
Body Frame::read() const noexcept {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body result;
    __builtin_memcpy(&result, body.data(), sizeof result);
    return result;
}

}  // namespace verbatim::softnic

// Checks of received frames, a function for each kind with rules of its own.
#include "frame.hpp"

#include <cstring>

namespace verbatim::softnic {
namespace {

constexpr std::uint8_t kOnlyLast = kCarriesImmediate | kCarriesKey | kSolicitedFrame;
constexpr std::uint8_t kBothCarried = kCarriesImmediate | kCarriesKey;

bool is_message(const Frame& frame) noexcept {
    const std::uint8_t flags = frame.header.flags;
    return (flags & ~kKnownFrameFlags) == 0 && (flags & kBothCarried) != kBothCarried &&
           ((flags & kLastPart) != 0 || (flags & kOnlyLast) == 0);
}

bool is_read(const Frame& frame) noexcept {
    const auto body = frame.read<ReadBody>();
    return body.bytes != 0 && body.bytes <= kMaxResult;
}

bool is_words(const Frame& frame) noexcept {
    const auto body = frame.read<WordsBody>();
    constexpr std::uint8_t kMostState = 2;
    return body.acknowledged <= body.taken && body.state <= kMostState && body.waits <= 1 &&
           body.stopped <= 1 && body.not_ready_for <= INT64_MAX;
}

bool has_number(const Frame& frame) noexcept {
    const FrameKind kind = frame.header.kind;
    return (frame.header.number == 0) == (kind == FrameKind::give_up || kind == FrameKind::words);
}

// Bytes and values of the body.
bool body_fits(const Frame& frame) noexcept {
    const std::size_t bytes = frame.body.size();
    switch (frame.header.kind) {
        case FrameKind::send:
            return bytes >= sizeof(MessageBody) && is_message(frame);
        case FrameKind::write:
            return bytes > sizeof(WriteBody) && frame.read<WriteBody>().zero == 0;
        case FrameKind::notice:
            return bytes == sizeof(MessageBody) && (frame.header.flags & ~kSolicitedFrame) == 0;
        case FrameKind::read:
            return bytes == sizeof(ReadBody) && is_read(frame);
        case FrameKind::atomic:
            return bytes == kAtomicBody;
        case FrameKind::give_up:
            return bytes == 0;
        case FrameKind::words:
            return bytes == sizeof(WordsBody) && is_words(frame);
        case FrameKind::result:
            return bytes != 0;
    }
    return false;
}

bool flags_fit(const Frame& frame) noexcept {
    const FrameKind kind = frame.header.kind;
    return frame.header.flags == 0 || kind == FrameKind::send || kind == FrameKind::notice;
}

}  // namespace

FrameState next_frame(std::span<const std::byte> bytes, Frame& frame) noexcept {
    if (bytes.size() < sizeof(FrameHeader)) return FrameState::partial;
    std::memcpy(&frame.header, bytes.data(), sizeof frame.header);
    const std::size_t whole = frame.header.bytes;
    if (whole < sizeof(FrameHeader) || whole > kMaxFrameBytes || frame.header.zero != 0)
        return FrameState::malformed;
    if (bytes.size() < whole) return FrameState::partial;
    frame.body = bytes.subspan(sizeof(FrameHeader), whole - sizeof(FrameHeader));
    const bool well = has_number(frame) && flags_fit(frame) && body_fits(frame);
    return well ? FrameState::whole : FrameState::malformed;
}

}  // namespace verbatim::softnic

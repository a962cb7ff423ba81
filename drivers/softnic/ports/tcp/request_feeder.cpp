// Records of the responder's ring, a function for each kind of frame.
#include "request_feeder.hpp"

#include <algorithm>
#include <cstring>

#include "../../host/shared_store.hpp"
#include "../../rings/remote_atomic.hpp"
#include "../../rings/remote_copy.hpp"

namespace verbatim::softnic {

static_assert(sizeof(RemoteAtomic) == kAtomicBody);

RequestFeeder::RequestFeeder(ChannelSender ring) noexcept : ring_(std::move(ring)) {
    ring_.set_attached();
}

namespace {

// What a part of such a frame is counted in.
std::uint64_t length_of(const Frame& frame) noexcept {
    switch (frame.header.kind) {
        case FrameKind::send:
            return frame.payload(sizeof(MessageBody)).size();
        case FrameKind::write:
            return frame.payload(sizeof(WriteBody)).size();
        case FrameKind::read:
            return frame.read<ReadBody>().bytes;
        default:
            return 0;
    }
}

}  // namespace

// A frame that is given again is the same one, or its rest would be read from elsewhere.
bool RequestFeeder::goes_on_with(const Frame& frame) const noexcept {
    return fed_ == 0 || (frame.header.kind == fed_kind_ && fed_ <= length_of(frame));
}

RequestFeeder::Fed RequestFeeder::feed(const Frame& frame) noexcept {
    const std::uint64_t number = frame.header.number;
    // Nothing is received any more. Or it is sent again, though the ring has it: the peer had not
    // heard of that yet.
    if (!ring_.receiver_is_open() || number <= taken_) return Fed::done;
    if (number != taken_ + 1) return repeats_ ? Fed::done : Fed::malformed;
    repeats_ = stopped_;
    if (stopped_) return Fed::done;
    if (!goes_on_with(frame)) return Fed::malformed;
    fed_kind_ = frame.header.kind;
    if (put(frame)) {
        taken_ = number;
        fed_ = 0, begun_ = false;
        return Fed::done;
    }
    if (ring_.broken()) return Fed::malformed;
    if (!waits()) return Fed::later;
    stopped_ = repeats_ = true;
    ++stops_;
    return Fed::done;
}

// The responder's word of it stays until the message is received whole: one that has its receive by
// now makes room.
bool RequestFeeder::waits() noexcept {
    if (!ring_.a_message_waits() || ring_.all_taken()) return false;
    if (const std::uint64_t seen = ring_.not_ready(); seen != messages_.waits_seen) {
        messages_.waits_seen = seen;
        messages_.waits_at = ring_.consumed();
    }
    return ring_.consumed() == messages_.waits_at;
}

// A message in the ring may find no receive: what is behind it would wait, too.
bool RequestFeeder::may_wait() noexcept {
    const bool received = !messages_.inside && collected_ >= messages_.marked;
    return !received && !ring_.all_taken();
}

// Before a part of a frame nothing else may be answered; its sender gives it again first.
RequestFeeder::Fed RequestFeeder::feed_again(const Frame& read) noexcept {
    if (again_.fed == 0) {
        if (!ring_.receiver_is_open() || fed_ != 0) return Fed::dropped;
        if (may_wait()) return waits() ? Fed::dropped : Fed::later;
    }
    if (!put_read(read, again_.fed)) {
        if (!ring_.receiver_is_open()) return Fed::dropped;
        return ring_.broken() ? Fed::malformed : Fed::later;
    }
    again_.fed = 0;
    return Fed::done;
}

// False: there is no room for the rest now; fed_ remembers where it begins.
bool RequestFeeder::put(const Frame& frame) noexcept {
    switch (frame.header.kind) {
        case FrameKind::send:
            return put_send(frame);
        case FrameKind::write:
            return put_write(frame);
        case FrameKind::notice:
            return put_notice(frame, frame.read<MessageBody>());
        case FrameKind::read:
            return put_read(frame, fed_);
        default:
            return put_atomic(frame);
    }
}

bool RequestFeeder::put_send(const Frame& frame) noexcept {
    const auto body = frame.read<MessageBody>();
    const auto payload = frame.payload(sizeof body);
    for (bool ends = false; !ends;) {
        std::size_t capacity = 0;
        const std::size_t left = payload.size() - fed_;
        std::byte* const to = may_mark() ? ring_.reserve(capacity, left) : nullptr;
        if (to == nullptr) return false;
        RecordHeader record{static_cast<std::uint32_t>(std::min(capacity, left)), 0, body.total,
                            body.immediate};
        copy_bytes(to, payload.data() + fed_, record.bytes);
        fed_ += record.bytes;
        ends = fed_ == payload.size();
        if (frame.has(kFirstPart) && !begun_) record.flags |= kFirstRecord;
        if (frame.has(kLastPart) && ends)
            record.flags |= kLastRecord | (frame.has(kCarriesImmediate) ? kHasImmediate : 0) |
                            (frame.has(kCarriesKey) ? kHasInvalidate : 0) |
                            (frame.has(kSolicitedFrame) ? kSolicitedRecord : 0);
        begun_ = true;
        messages_.inside = (record.flags & kLastRecord) == 0;
        ring_.commit(record);
    }
    if (frame.has(kLastPart)) mark_message(frame.header.number);
    return true;
}

bool RequestFeeder::put_write(const Frame& frame) noexcept {
    const auto body = frame.read<WriteBody>();
    const auto payload = frame.payload(sizeof body);
    while (fed_ != payload.size()) {
        const WriteBody to{body.address + fed_, body.key, 0};
        const std::size_t put = may_mark() ? put_piece(to, payload.subspan(fed_)) : 0;
        if (put == 0) return false;
        fed_ += put;
        if (fed_ == payload.size())
            mark({.number = frame.header.number, .last = frame.notice == nullptr});
    }
    return frame.notice == nullptr || put_notice(frame, *frame.notice);
}

// A record ends where an aligned word of the memory does: no word is stored in two halves. Only the
// last one of a frame is acknowledged. Returns its bytes.
std::size_t RequestFeeder::put_piece(const WriteBody& to,
                                     std::span<const std::byte> left) noexcept {
    constexpr std::size_t kLeast = 24, kWord = 8;
    std::size_t room = 0;
    if (ring_.reserve_whole(sizeof(RemoteCopy) + std::min(left.size(), kLeast)) == nullptr)
        return 0;
    std::byte* const at = ring_.reserve(room);
    if (at == nullptr) return 0;
    std::size_t bytes = std::min(left.size(), room - sizeof(RemoteCopy));
    if (bytes != left.size()) bytes -= (to.address + bytes) % kWord;
    const RemoteCopy piece{to.address, to.key, static_cast<std::uint32_t>(bytes)};
    copy_bytes(at, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
    copy_bytes(at + sizeof piece, left.data(), bytes);
    ring_.commit({static_cast<std::uint32_t>(sizeof piece + bytes),
                  kPutRecord | kFirstRecord | (bytes == left.size() ? kLastRecord : 0), 0, 0});
    return bytes;
}

bool RequestFeeder::put_notice(const Frame& frame, const MessageBody& body) noexcept {
    std::size_t capacity = 0;
    if (!may_mark() || ring_.reserve(capacity, 0) == nullptr) return false;
    ring_.commit({0,
                  kFirstRecord | kLastRecord | kHasImmediate | kWriteRecord |
                      (frame.has(kSolicitedFrame) ? kSolicitedRecord : 0),
                  body.total, body.immediate});
    mark_message(frame.header.number);
    return true;
}

// Amid a message, a record does not begin another one.
bool RequestFeeder::put_read(const Frame& frame, std::uint64_t& fed) noexcept {
    const auto body = frame.read<ReadBody>();
    const bool again = frame.has(kAgainPart);
    while (fed != body.bytes) {
        if (!may_mark() || ring_.untaken_answers() == kAnswers) return false;
        const auto bytes = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(ring_.answer_bytes(), body.bytes - fed));
        const RemoteCopy piece{body.address + fed, body.key, bytes};
        std::byte* const to = ring_.reserve_whole(sizeof piece + bytes);
        if (to == nullptr) return false;
        copy_bytes(to, reinterpret_cast<const std::byte*>(&piece), sizeof piece);
        ring_.commit_question({static_cast<std::uint32_t>(sizeof piece + bytes),
                               kGetRecord | kLastRecord | (messages_.inside ? 0 : kFirstRecord), 0,
                               0});
        mark({.number = frame.header.number,
              .bytes = bytes,
              .frame_bytes = fed == 0 ? body.bytes : 0,
              .flags = frame.header.flags,
              .last = !again && fed + bytes == body.bytes});
        fed += bytes;
        again_.unanswered += again ? 1 : 0;
    }
    return true;
}

bool RequestFeeder::put_atomic(const Frame& frame) noexcept {
    if (!may_mark() || atomics_.put - atomics_.answered == kAtomicResults) return false;
    std::byte* const to = ring_.reserve_whole(kAtomicBody);
    if (to == nullptr) return false;
    copy_bytes(to, frame.body.data(), kAtomicBody);
    ring_.commit({kAtomicBody, kFirstRecord | kLastRecord | kAtomicRecord, kAtomicBody, 0});
    mark({.number = frame.header.number,
          .bytes = kAtomicResult,
          .frame_bytes = kAtomicResult,
          .atomic = true,
          .last = true});
    ++atomics_.put;
    return true;
}

}  // namespace verbatim::softnic

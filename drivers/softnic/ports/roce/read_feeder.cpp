// Reads packet by packet.
#include "read_feeder.hpp"

#include <algorithm>

#include "packets/message_opcodes.hpp"

namespace verbatim::softnic {

using Fed = ReadFeeder::Fed;

PacketOpcode opcode_of(const FrameHeader& result) noexcept {
    if ((result.flags & kReadPart) == 0) return PacketOpcode::atomic_acknowledge;
    return response_opcode((result.flags & kFirstPart) != 0, (result.flags & kLastPart) != 0);
}

std::uint64_t ReadFeeder::last_of(std::uint64_t first, std::uint64_t bytes) const noexcept {
    return first + std::max<std::uint64_t>((bytes + mtu_ - 1) / mtu_, 1) - 1;
}

Fed ReadFeeder::begin(const RemoteHeader& request, std::uint64_t number) noexcept {
    const std::uint32_t bytes = request.bytes.native();
    const std::uint64_t next = feeder_.taken() + 1, last = last_of(number, bytes);
    if (bytes == 0) return feed_empty(number);
    if (number == next)
        first_ = number, last_ = last;
    else if (first_ != number || last_ != last)
        return Fed::malformed;
    const std::uint64_t skip = (next - number) * mtu_;
    next_ = next;
    address_ = request.address.native() + skip;
    key_ = request.key.native();
    left_ = static_cast<std::uint32_t>(bytes - skip);
    return go_on();
}

Fed ReadFeeder::go_on() noexcept {
    while (left_ != 0) {
        const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(left_, mtu_));
        const Fed fed =
            feed(part, (next_ == first_ ? kFirstPart : 0) | (part == left_ ? kLastPart : 0));
        if (fed == Fed::later || fed == Fed::malformed) return fed;
        if (fed == Fed::dropped) {
            left_ = 0;
            return fed;
        }
        ++next_;
        address_ += part, left_ -= part;
    }
    return Fed::done;
}

// Without a key, as the specification has it: nothing is read.
Fed ReadFeeder::feed_empty(std::uint64_t number) noexcept {
    if (empties_begun_ - empties_answered_ == kEmpties) return Fed::later;
    next_ = number;
    const Fed fed = feed(0, kFirstPart | kLastPart);
    if (fed == Fed::done) empties_[empties_begun_++ % kEmpties] = number;
    return fed;
}

// Dropped: there is no room behind a message that waits, or nothing is received any more.
Fed ReadFeeder::feed(std::uint32_t bytes, std::uint8_t flags) noexcept {
    const ReadBody body{address_, key_, bytes};
    Frame frame;
    frame.header.kind = FrameKind::read;
    frame.header.flags = kReadPart | flags;
    frame.header.number = next_;
    frame.body = std::as_bytes(std::span(&body, 1));
    const Fed fed = feeder_.feed(frame);
    return fed == Fed::done && feeder_.taken() < next_ ? Fed::dropped : fed;
}

}  // namespace verbatim::softnic

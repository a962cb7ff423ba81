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

Fed ReadFeeder::begin(const RemoteHeader& request, std::uint64_t number, Asks asks) noexcept {
    const std::uint32_t bytes = request.bytes.native();
    const std::uint64_t next = feeder_.taken() + 1, last = last_of(number, bytes);
    if (bytes == 0) return begin_empty(number);
    if (number == next)
        first_ = number, last_ = last;
    else if (last >= next && (first_ > number || last_ != last))
        return Fed::malformed;
    begin_ = number;
    next_ = asks == Asks::all ? number : next;
    const std::uint64_t skip = (next_ - number) * mtu_;
    address_ = request.address.native() + skip;
    key_ = request.key.native();
    left_ = static_cast<std::uint32_t>(bytes - skip);
    return Fed::done;
}

Fed ReadFeeder::go_on() noexcept {
    while (left_ != 0) {
        const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(left_, mtu_));
        const Fed fed =
            feed(part, (next_ == begin_ ? kFirstPart : 0) | (part == left_ ? kLastPart : 0));
        if (fed == Fed::later || fed == Fed::malformed) return fed;
        if (fed == Fed::dropped) {
            left_ = 0;
            return next_ <= feeder_.taken() ? Fed::done : fed;
        }
        ++next_;
        address_ += part, left_ -= part;
    }
    return Fed::done;
}

// Without a key, as the specification has it: nothing is read.
Fed ReadFeeder::begin_empty(std::uint64_t number) noexcept {
    if (empties_begun_ - empties_answered_ == kEmpties)
        return feeder_.waits() ? Fed::dropped : Fed::later;
    next_ = number;
    const Fed fed = number <= feeder_.taken() ? Fed::done : feed(0, kFirstPart | kLastPart);
    if (fed == Fed::done) empties_[empties_begun_++ % kEmpties] = number;
    return fed;
}

Fed ReadFeeder::feed(std::uint32_t bytes, std::uint8_t flags) noexcept {
    const ReadBody body{address_, key_, bytes};
    const bool again = next_ <= feeder_.taken();
    Frame frame;
    frame.header.kind = FrameKind::read;
    frame.header.flags = kReadPart | flags | (again ? kAgainPart : 0);
    frame.header.number = next_;
    frame.body = std::as_bytes(std::span(&body, 1));
    if (again) return feeder_.feed_again(frame);
    const Fed fed = feeder_.feed(frame);
    return fed == Fed::done && feeder_.taken() < next_ ? Fed::dropped : fed;
}

}  // namespace verbatim::softnic

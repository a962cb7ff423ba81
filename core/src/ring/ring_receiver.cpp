// A look at records that are not handed out yet.
#include "ring_receiver.hpp"

namespace verbatim {

Errc RingReceiver::look_ahead(Seen& seen, std::uint64_t position) noexcept {
    while (seen_ < position && seen_ - consumed_ < kFarthest * (mask_ + 1)) {
        const std::size_t at = seen_ & mask_;
        if (!is_complete(at, seen_)) break;
        const std::uint64_t raw = load(at);  // once more, behind the trailer
        if (load(trailer_at(at, raw)) != ring::tag(key_, seen_)) break;
        const ring::Word0 word = ring::Word0::from(raw);
        const std::size_t slot = slot_of(word, at);
        if (slot == 0) return Errc::protocol_error;
        seen_ += slot;
        if (word.frame == ring::Frame::pad) {
            ++seen.pads;
            continue;
        }
        ++seen.count;
        seen.credit = word.credit;
    }
    return Errc::ok;
}

Errc RingReceiver::holds_up_to(std::uint64_t position, Seen& seen) noexcept {
    // Positions from before are old news; those beyond the ring are lies.
    if (position > consumed_ && position - consumed_ > kFarthest * (mask_ + 1))
        return Errc::protocol_error;
    if (position <= seen_) return Errc::ok;
    if (const Errc error = look_ahead(seen, position); error != Errc::ok) return error;
    if (seen_ > position) return Errc::protocol_error;
    return seen_ == position ? Errc::ok : Errc::would_block;
}

}  // namespace verbatim

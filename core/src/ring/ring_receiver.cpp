// A look at records that are not handed out yet.
#include "ring_receiver.hpp"

#include <algorithm>

namespace verbatim {

Errc RingReceiver::holds_up_to(std::uint64_t position) noexcept {
    seen_ = std::max(seen_, position_);
    if (position <= seen_) return Errc::ok;
    if (position - consumed_ > mask_ + 1) return Errc::protocol_error;
    while (seen_ < position) {
        const std::size_t at = seen_ & mask_;
        const std::uint64_t expected = ring::tag(key_, seen_);
        if (load(trailer_at(at, load(at))) != expected) return Errc::would_block;
        const std::uint64_t raw = load(at);  // once more, behind the trailer
        if (load(trailer_at(at, raw)) != expected) return Errc::would_block;
        const std::size_t slot = slot_of(ring::Word0::from(raw), at);
        if (slot == 0) return Errc::protocol_error;
        seen_ += slot;
    }
    return seen_ == position ? Errc::ok : Errc::protocol_error;
}

}  // namespace verbatim

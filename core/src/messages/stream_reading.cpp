// How the bytes of a stream are read: out of the buffer, and out of what the peer lends.
#include <algorithm>
#include <cstring>
#include <utility>

#include "stream_layer.hpp"

namespace verbatim {

std::size_t StreamLayer::readable() const noexcept {
    std::size_t bytes = end_ - begin_;
    for (const Lent& lent : lent_) bytes += lent.offer.bytes - lent.read;
    return bytes;
}

Errc StreamLayer::try_read(std::span<std::byte> into, std::size_t& read) noexcept {
    read = 0;
    while (read < into.size()) {
        const std::span<std::byte> rest = into.subspan(read);
        const std::size_t some = is_lent_next() ? read_lent(rest, read == 0) : copy_out(rest);
        if (some == 0) break;
        read += some;
    }
    if (read != 0 || into.empty() || is_over()) return Errc::ok;
    return why_ == Errc::ok ? Errc::would_block : why_;
}

// Up to what is lent next.
std::size_t StreamLayer::copy_out(std::span<std::byte> into) noexcept {
    const std::uint64_t until = lent_.empty() ? end_ : lent_.front().position;
    const std::size_t bytes = std::min<std::size_t>(into.size(), until - begin_);
    const std::size_t at = begin_ % Stream::kWindow;
    const std::size_t first = std::min(bytes, Stream::kWindow - at);
    std::memcpy(into.data(), buffer_.get() + at, first);
    std::memcpy(into.data() + first, buffer_.get(), bytes - first);
    begin_ += bytes;
    if (bytes != 0) window_.note_taken(bytes);
    return bytes;
}

// 0: they must be pulled first, which goes on with polls.
std::size_t StreamLayer::read_lent(std::span<std::byte> into, bool may_pull) noexcept {
    Lent& lent = lent_.front();
    if (lent.read == lent.offer.taken && may_pull) pull_more(lent.offer);
    if (pull_.is_under_way()) return 0;
    const std::size_t bytes = std::min(into.size(), lent.offer.taken - lent.read);
    std::copy_n(pull_.buffer().begin() + static_cast<std::ptrdiff_t>(lent.read - pulled_from_),
                bytes, into.begin());
    lent.read += bytes;
    finish_lent();
    return bytes;
}

void StreamLayer::pull_more(LentOffer& offer) noexcept {
    if (why_ != Errc::ok || pull_.is_under_way()) return;
    const std::span<std::byte> buffer = pull_.buffer();
    if (buffer.empty()) return end(Errc::out_of_memory);
    pulled_from_ = offer.taken;
    pull_.start(offer, buffer.first(std::min(buffer.size(), offer.left())));
    pulling_.begin();
}

void StreamLayer::finish_lent() noexcept {
    const Lent& lent = lent_.front();
    if (lent.read != lent.offer.bytes) return;
    const std::uint64_t id = lent.offer.head.id;
    lent_.pop_front();
    answers_.add(id);
}

Errc StreamLayer::pull_some() noexcept {
    const Errc error = is_direct_ ? Errc::ok : pull_.advance();
    if (error > Errc::would_block) end(error);
    return error;
}

Errc StreamLayer::read_direct(std::span<std::byte> into, std::size_t& read) noexcept {
    if (!is_direct_) {
        if (!may_read_directly(into)) return Errc::unsupported;
        LentOffer& offer = lent_.front().offer;
        pulled_from_ = offer.taken;
        pull_.start(offer, into.first(std::min(into.size(), offer.left())));
        is_direct_ = true;
    }
    const Errc error = pull_.advance();
    if (error > Errc::would_block) end(error);
    if (error != Errc::ok) return error;
    is_direct_ = false;
    Lent& lent = lent_.front();
    lent.read = lent.offer.taken;
    read = lent.read - pulled_from_;
    finish_lent();
    return Errc::ok;
}

bool StreamLayer::may_read_directly(std::span<std::byte> into) const noexcept {
    return is_lent_next() && lent_.front().read == lent_.front().offer.taken &&
           !pull_.is_under_way() && why_ == Errc::ok && into.size() >= kPiece &&
           impl_.context->arenas.find(into.data()) != nullptr;
}

// What was read there already is read again later.
void StreamLayer::stop_direct() noexcept {
    if (!std::exchange(is_direct_, false)) return;
    pull_.stop();
    lent_.front().offer.taken = lent_.front().read;
}

}  // namespace verbatim

// A byte stream's pieces, copied and lent.
#include "stream_layer.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace verbatim {

StreamLayer::StreamLayer(Connection& connection)
    : impl_(LayerAccess::impl_of(connection)),
      window_(connection, kChannel, Stream::kWindow),
      buffer_(std::make_unique<std::byte[]>(Stream::kWindow)),
      sends_(impl_, kChannel),
      pull_(connection),
      answers_(connection, kChannel),
      pulling_(OneSided(connection), Step{this}) {}

void StreamLayer::receive(Message& message) noexcept try {
    if (why_ == Errc::ok && !take(message)) end(Errc::protocol_error);
} catch (const std::bad_alloc&) {
    end(Errc::out_of_memory);
}

// False: it breaks the protocol.
bool StreamLayer::take(Message& message) {
    const std::span<const std::byte> payload = message.payload();
    switch (message.kind()) {
        case kBytes:
            if (peer_finished_ || payload.empty() || !window_.note_arrived(payload.size()))
                return false;
            store(payload);
            return true;
        case kEnd:
            return !std::exchange(peer_finished_, true) && payload.empty();
        case LentOffer::kLent:
            return !peer_finished_ && take_lent(payload);
        case LentOffer::kRead:
            return sends_.take(payload);
        case LayerWindow::kTaken:
            return window_.take(payload);
        default:
            return false;
    }
}

bool StreamLayer::take_lent(std::span<const std::byte> payload) {
    auto offer = LentOffer::parse(payload);
    if (!offer || lent_.size() + answers_.waiting() >= LentOffer::kMostOpen) return false;
    lent_.push_back({end_, std::move(*offer)});
    return true;
}

// The window says that there is room.
void StreamLayer::store(std::span<const std::byte> bytes) noexcept {
    const std::size_t at = end_ % Stream::kWindow;
    const std::size_t first = std::min(bytes.size(), Stream::kWindow - at);
    std::memcpy(buffer_.get() + at, bytes.data(), first);
    std::memcpy(buffer_.get(), bytes.data() + first, bytes.size() - first);
    end_ += bytes.size();
}

Errc StreamLayer::try_write(std::span<const std::byte> bytes, std::size_t& written) noexcept {
    written = 0;
    if (has_finished_) return Errc::invalid_argument;
    if (why_ != Errc::ok) return why_;
    const std::size_t longest = std::min(kPiece, impl_.member.ring().sender().max_payload());
    while (written < bytes.size()) {
        const std::size_t piece = std::min<std::size_t>(
            {bytes.size() - written, longest, static_cast<std::size_t>(window_.room())});
        const Errc error =
            piece == 0
                ? Errc::would_block
                : impl_.try_send(
                      {.channel = kChannel, .kind = kBytes, .body = bytes.subspan(written, piece)});
        if (error != Errc::ok) return written != 0 && error == Errc::would_block ? Errc::ok : error;
        window_.note_sent(piece);
        written += piece;
    }
    return Errc::ok;
}

Errc StreamLayer::try_write(SendRequest& request) noexcept {
    if (has_finished_ || request.sends_ != nullptr || request.result_ != Errc::would_block)
        return Errc::invalid_argument;
    if (why_ != Errc::ok) return why_;
    if (sends_.is_worth_it(request)) {
        const Errc error = sends_.try_send(request, 0);
        if (scope_of(error) != Scope::request) return error;
        request.copies_ = true;
    }
    std::size_t written = 0;
    const Errc error = try_write(request.bytes_.subspan(request.copied_), written);
    request.copied_ += written;
    if (error != Errc::ok) return error;
    if (request.copied_ != request.bytes_.size()) return Errc::would_block;
    request.result_ = Errc::ok;
    return Errc::ok;
}

Errc StreamLayer::try_finish() noexcept {
    if (has_finished_) return Errc::ok;
    const Errc error = impl_.try_send({.channel = kChannel, .kind = kEnd});
    has_finished_ = error == Errc::ok;
    return error;
}

void StreamLayer::end(Errc why) noexcept {
    if (why_ == Errc::ok) why_ = why;
    stop_direct();
    pull_.stop();
    sends_.end(why_);
}

}  // namespace verbatim

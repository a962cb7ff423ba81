// Bytes that leave from where they lie.
#include "lent_sends.hpp"

#include <cstring>
#include <new>

namespace verbatim {

std::optional<LentOffer> LentOffer::parse(std::span<const std::byte> message) {
    LentOffer offer;
    if (message.size() <= sizeof offer.head) return std::nullopt;
    std::memcpy(&offer.head, message.data(), sizeof offer.head);
    message = message.subspan(sizeof offer.head);
    const std::size_t count = message.size() / sizeof(RemoteExtent);
    if (message.size() % sizeof(RemoteExtent) != 0 || count > kMostExtents) return std::nullopt;
    offer.extents.resize(count);
    std::memcpy(offer.extents.data(), message.data(), message.size());
    for (const RemoteExtent& extent : offer.extents) {
        if (extent.bytes == 0 || extent.reserved != 0 ||
            extent.bytes > (std::uint64_t{1} << 48) - offer.bytes)
            return std::nullopt;
        offer.bytes += extent.bytes;
    }
    return offer;
}

RemoteExtent LentOffer::rest(std::size_t most) const noexcept {
    std::size_t before = taken;
    for (const RemoteExtent& extent : extents) {
        if (before < extent.bytes)
            return {extent.address + before, std::min<std::uint64_t>(extent.bytes - before, most),
                    extent.remote_key, 0};
        before -= extent.bytes;
    }
    return {};
}

bool LentSends::is_possible(const SendRequest& request) const noexcept {
    return !request.bytes_.empty() && !request.copies_ && request.copied_ == 0 &&
           impl_.context->arenas.find(request.bytes_.data()) != nullptr;
}

Errc LentSends::lend(Connection& connection, SendRequest& request) noexcept try {
    const std::span memory(const_cast<std::byte*>(request.bytes_.data()), request.bytes_.size());
    request.grant_ =
        Grant::begin(connection, memory, Access::remote_read, nullptr, EndNotice::none);
    return Errc::ok;
} catch (const Error& error) {
    return error.code();
} catch (const std::bad_alloc&) {
    return Errc::out_of_memory;
}

Errc LentSends::try_send(SendRequest& request, std::uint64_t tag) noexcept {
    if (impl_.handle == nullptr) return Errc::flushed;
    if (open_ == LentOffer::kMostOpen) return Errc::would_block;
    if (!request.grant_)
        if (const Errc error = lend(*impl_.handle, request); error != Errc::ok) return error;
    const auto extents = request.grant_.extents();
    if (extents.size() > LentOffer::kMostExtents) {
        request.grant_.end();
        return Errc::message_too_large;
    }
    if (!request.grant_.is_ready())
        return impl_.has_ended() ? impl_.why_ended() : Errc::would_block;
    const LentOffer::Head head{last_id_ + 1, tag};
    const Errc error = impl_.try_send({.channel = channel_,
                                       .kind = LentOffer::kLent,
                                       .head = std::as_bytes(std::span(&head, 1)),
                                       .body = std::as_bytes(extents)});
    if (error != Errc::ok) return error;
    request.id_ = ++last_id_;
    request.sends_ = this;
    request.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &request;
    first_ = &request;
    ++open_;
    return Errc::ok;
}

SendRequest* LentSends::find(std::uint64_t id) noexcept {
    SendRequest* at = first_;
    while (at != nullptr && at->id_ != id) at = at->next_;
    return at;
}

bool LentSends::take(std::span<const std::byte> message) noexcept {
    if (message.empty() || message.size() % sizeof(std::uint64_t) != 0) return false;
    for (std::uint64_t id = 0; !message.empty(); message = message.subspan(sizeof id)) {
        std::memcpy(&id, message.data(), sizeof id);
        SendRequest* const request = find(id);
        if (request == nullptr) return false;
        remove(*request);
        request->result_ = Errc::ok;
    }
    return true;
}

// The memory is free when the grant has ended: the peer may lie about having read it.
void LentSends::remove(SendRequest& request) noexcept {
    (request.previous_ == nullptr ? first_ : request.previous_->next_) = request.next_;
    if (request.next_ != nullptr) request.next_->previous_ = request.previous_;
    request.next_ = request.previous_ = nullptr;
    request.sends_ = nullptr;
    --open_;
    request.grant_.end();
}

void LentSends::end(Errc why) noexcept {
    while (first_ != nullptr) {
        SendRequest& request = *first_;
        remove(request);
        request.result_ = why;
    }
}

SendRequest::~SendRequest() {
    if (sends_ != nullptr) sends_->remove(*this);
}

}  // namespace verbatim

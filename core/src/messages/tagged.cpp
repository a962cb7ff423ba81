// Matching of tagged messages.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "layer_of.hpp"
#include "tagged_layer.hpp"

namespace verbatim {

TaggedLayer::TaggedLayer(Connection& connection)
    : impl_(LayerAccess::impl_of(connection)),
      window_(connection, kChannel, kWindow),
      sends_(impl_, kChannel),
      pull_(connection),
      answers_(connection, kChannel),
      pulling_(OneSided(connection), Step{this}) {}

void TaggedLayer::receive(Message& message) noexcept try {
    if (end_ != Errc::ok) return;
    const std::span<const std::byte> payload = message.payload();
    bool is_true = false;
    switch (message.kind()) {
        case kTagged:
            is_true = receive_copied(payload);
            break;
        case LentOffer::kLent:
            is_true = receive_lent(payload);
            break;
        case LentOffer::kRead:
            is_true = sends_.take(payload);
            break;
        case LayerWindow::kTaken:
            is_true = window_.take(payload);
            break;
        default:
            break;
    }
    if (!is_true) end(Errc::protocol_error);
} catch (const std::bad_alloc&) {
    end(Errc::out_of_memory);
}

// Copied out of the ring once, so that the peer cannot change what was looked at.
bool TaggedLayer::receive_copied(std::span<const std::byte> payload) {
    std::uint64_t tag = 0;
    if (payload.size() < sizeof tag) return false;
    std::memcpy(&tag, payload.data(), sizeof tag);
    payload = payload.subspan(sizeof tag);
    if (!window_.note_arrived(cost_of(payload.size()))) return false;
    if (TaggedReceive* const receive = take_receive_of(tag)) {
        fill(*receive, tag, payload);
        window_.note_taken(cost_of(payload.size()));
        return true;
    }
    auto copy = std::make_unique_for_overwrite<std::byte[]>(payload.size());
    std::ranges::copy(payload, copy.get());
    Kept& kept = kept_.emplace_back();
    kept.offer.head.tag = tag;
    kept.offer.bytes = payload.size();
    kept.copy = std::move(copy);
    return true;
}

bool TaggedLayer::receive_lent(std::span<const std::byte> payload) {
    auto offer = LentOffer::parse(payload);
    if (!offer || lent_ + answers_.waiting() >= LentOffer::kMostOpen) return false;
    ++lent_;
    if (TaggedReceive* const receive = take_receive_of(offer->head.tag))
        pull(*receive, std::move(*offer));
    else
        kept_.push_back({std::move(*offer), nullptr});
    return true;
}

TaggedReceive* TaggedLayer::take_receive_of(std::uint64_t tag) noexcept {
    TaggedReceive* at = first_;
    while (at != nullptr && !agrees(tag, at->tag_, at->mask_)) at = at->next_;
    if (at != nullptr) unlink(*at);
    return at;
}

void TaggedLayer::fill(TaggedReceive& receive, std::uint64_t tag,
                       std::span<const std::byte> message) noexcept {
    const std::size_t room = std::min(message.size(), receive.into_.size());
    std::ranges::copy(message.first(room), receive.into_.begin());
    receive.tag_ = tag;
    receive.bytes_ = message.size();
    receive.result_ = room == message.size() ? Errc::ok : Errc::message_too_large;
}

void TaggedLayer::pull(TaggedReceive& receive, LentOffer offer) noexcept try {
    pulled_.push_back({&receive, std::move(offer)});
    receive.layer_ = this;
    receive.is_pulled_ = true;
    if (pulled_.size() == 1) start_pull();
    pulling_.begin();
} catch (const std::bad_alloc&) {
    receive.result_ = Errc::out_of_memory;
    end(Errc::out_of_memory);
}

void TaggedLayer::start_pull() noexcept {
    Pulled& pulled = pulled_.front();
    std::span<std::byte> into;
    if (pulled.receive != nullptr)
        into =
            pulled.receive->into_.first(std::min(pulled.receive->into_.size(), pulled.offer.bytes));
    pull_.start(pulled.offer, into);
}

Errc TaggedLayer::pull_some() noexcept {
    while (!pulled_.empty()) {
        const Errc error = pull_.advance();
        if (error == Errc::would_block) return error;
        if (error != Errc::ok) {
            end(error);
            break;
        }
        finish_pull();
        if (!pulled_.empty()) start_pull();
    }
    return Errc::ok;
}

void TaggedLayer::finish_pull() noexcept {
    const Pulled pulled = std::move(pulled_.front());
    pulled_.pop_front();
    --lent_;
    answers_.add(pulled.offer.head.id);
    if (pulled.receive == nullptr) return;
    TaggedReceive& receive = *pulled.receive;
    receive.layer_ = nullptr;
    receive.is_pulled_ = false;
    receive.tag_ = pulled.offer.head.tag;
    receive.bytes_ = pulled.offer.bytes;
    receive.result_ = receive.into_.size() >= receive.bytes_ ? Errc::ok : Errc::message_too_large;
}

std::size_t TaggedLayer::longest_copied() const noexcept {
    return std::min(kLongestCopied,
                    impl_.member.ring().sender().max_payload() - sizeof(std::uint64_t));
}

Errc TaggedLayer::try_send(std::uint64_t tag, std::span<const std::byte> message) noexcept {
    if (message.size() > longest_copied()) return Errc::message_too_large;
    if (window_.room() < cost_of(message.size())) return Errc::would_block;
    const Errc error = impl_.try_send({.channel = kChannel,
                                       .kind = kTagged,
                                       .head = std::as_bytes(std::span(&tag, 1)),
                                       .body = message});
    if (error == Errc::ok) window_.note_sent(cost_of(message.size()));
    return error;
}

Errc TaggedLayer::try_send(std::uint64_t tag, SendRequest& request) noexcept {
    if (request.sends_ != nullptr || request.result_ != Errc::would_block)
        return Errc::invalid_argument;
    const bool is_long = request.bytes_.size() > longest_copied();
    if (is_long ? sends_.is_possible(request) : sends_.is_worth_it(request)) {
        const Errc error = sends_.try_send(request, tag);
        if (is_long || scope_of(error) != Scope::request) return error;
        request.copies_ = true;
    }
    const Errc error = try_send(tag, request.bytes_);
    if (error == Errc::ok) request.result_ = error;
    return error;
}

void TaggedLayer::post(TaggedReceive& receive) noexcept {
    if (receive.layer_ != nullptr) return;
    receive.result_ = end_ == Errc::ok ? Errc::would_block : end_;
    const auto found = std::ranges::find_if(kept_, [&](const Kept& one) {
        return agrees(one.offer.head.tag, receive.tag_, receive.mask_);
    });
    if (found != kept_.end() && (end_ == Errc::ok || found->copy)) {
        Kept kept = std::move(*found);
        kept_.erase(found);
        if (!kept.copy) return pull(receive, std::move(kept.offer));
        fill(receive, kept.offer.head.tag, {kept.copy.get(), kept.offer.bytes});
        return window_.note_taken(cost_of(kept.offer.bytes));
    }
    if (end_ != Errc::ok) return;
    receive.layer_ = this;
    receive.previous_ = last_;
    (last_ == nullptr ? first_ : last_->next_) = &receive;
    last_ = &receive;
}

void TaggedLayer::unlink(TaggedReceive& receive) noexcept {
    (receive.previous_ == nullptr ? first_ : receive.previous_->next_) = receive.next_;
    (receive.next_ == nullptr ? last_ : receive.next_->previous_) = receive.previous_;
    receive.next_ = receive.previous_ = nullptr;
    receive.layer_ = nullptr;
}

void TaggedLayer::take_back(TaggedReceive& receive) noexcept {
    if (receive.is_pulled_) return;  // a message has come for it
    unlink(receive);
    receive.result_ = Errc::flushed;
}

void TaggedLayer::drop(TaggedReceive& receive) noexcept {
    if (!receive.is_pulled_) return unlink(receive);
    const auto at = std::ranges::find(pulled_, &receive, &Pulled::receive);
    at->receive = nullptr;
    if (at != pulled_.begin()) return;
    pull_.stop();
    start_pull();  // of nothing: the message is gone
}

bool TaggedLayer::probe(std::uint64_t tag, std::uint64_t mask,
                        Tagged::Waiting& waiting) const noexcept {
    for (const Kept& kept : kept_) {
        if (!agrees(kept.offer.head.tag, tag, mask)) continue;
        waiting = {kept.offer.head.tag, kept.offer.bytes};
        return true;
    }
    return false;
}

void TaggedLayer::end(Errc why) noexcept {
    if (end_ == Errc::ok) end_ = why;
    pull_.stop();
    sends_.end(end_);
    for (Pulled& pulled : std::exchange(pulled_, {})) {
        if (pulled.receive == nullptr) continue;
        pulled.receive->layer_ = nullptr;
        pulled.receive->is_pulled_ = false;
        pulled.receive->result_ = end_;
    }
    while (first_ != nullptr) {
        TaggedReceive& receive = *first_;
        unlink(receive);
        receive.result_ = end_;
    }
}

void TaggedReceive::cancel() noexcept {
    if (layer_ != nullptr) layer_->take_back(*this);
}

TaggedReceive::~TaggedReceive() {
    if (layer_ != nullptr) layer_->drop(*this);
}

Tagged::Tagged(Connection& connection)
    : impl_(LayerAccess::impl_of(connection)), layer_(layer_of<TaggedLayer>(connection)) {}

std::size_t Tagged::longest_copied() const noexcept { return layer_->longest_copied(); }

std::size_t Tagged::lend_from() const noexcept { return layer_->least_lent(); }

void Tagged::set_lend_from(std::size_t bytes) noexcept { layer_->set_least_lent(bytes); }

Errc Tagged::try_send(std::uint64_t tag, std::span<const std::byte> message) noexcept {
    const auto guard = enter(impl_);
    return layer_->try_send(tag, message);
}

Errc Tagged::try_send(std::uint64_t tag, SendRequest& request) noexcept {
    const auto guard = enter(impl_);
    return layer_->try_send(tag, request);
}

void Tagged::receive(TaggedReceive& receive) noexcept {
    const auto guard = enter(impl_);
    layer_->post(receive);
}

bool Tagged::probe(std::uint64_t tag, std::uint64_t mask, Waiting& waiting) const noexcept {
    return layer_->probe(tag, mask, waiting);
}

void Tagged::send(std::uint64_t tag, std::span<const std::byte> message, Deadline deadline) {
    refuse_in_handler(impl_);
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return layer_->try_send(tag, message); });
}

void Tagged::send(std::uint64_t tag, SendRequest& request, Deadline deadline) {
    refuse_in_handler(impl_);
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return layer_->try_send(tag, request); });
    wait_for(impl_, deadline, [&] { return request.result(); });
}

void Tagged::wait(const TaggedReceive& receive, Deadline deadline) {
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return receive.result(); });
}

}  // namespace verbatim

// Slots pass from the free list to a producer, to the filled list, to the lane, and back.
#include "sender_impl.hpp"

#include <algorithm>
#include <cstring>

#include <verbatim/core/connection.hpp>

namespace verbatim {

Sender::Sender(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Errc Sender::try_send(std::uint8_t channel, std::span<const std::byte> head,
                      std::span<const std::byte> body, std::uint8_t kind) const noexcept {
    return impl_->try_send({channel, kind, head, body});
}

std::size_t Sender::max_message_bytes() const noexcept { return impl_->max_message_bytes(); }

Sender::Impl::Impl(const std::shared_ptr<Lane::Impl>& lane, const SenderTarget& target,
                   std::size_t most)
    : place_(lane),
      target_(target),
      most_(std::min(most, kMostBytes) / 8 * 8),
      slots_(kSlots),
      payloads_(new std::byte[kSlots * most_]) {
    for (std::uint32_t i = 0; i < kSlots; ++i) free_.push(i);
    lane->stalled().expect(lane->queue().users() + 1);
    take = [](InboxItem& item) noexcept { static_cast<Impl&>(item).leave_inbox(); };
    retry = [](InboxItem& item) noexcept { static_cast<Impl&>(item).drain(); };
    drop = [](InboxItem& item) noexcept { static_cast<Impl&>(item).self_.reset(); };
}

Errc Sender::Impl::try_send(const OutgoingMessage& message) noexcept {
    if (const Errc ended = ended_.load(std::memory_order_relaxed); ended != Errc::ok) return ended;
    if (message.kind >= ring::kKinds || message.channel >= kLayerChannels)
        return Errc::invalid_argument;
    const std::size_t bytes = message.head.size() + message.body.size();
    if (bytes > most_ || bytes < message.head.size()) return Errc::message_too_large;
    std::uint32_t index = 0;
    if (!free_.pop(index)) return refusal();
    fill(index, message);
    filled_.push(index);
    return announce();
}

void Sender::Impl::fill(std::uint32_t index, const OutgoingMessage& message) noexcept {
    std::byte* const to = payload_of(index);
    if (!message.head.empty()) std::memcpy(to, message.head.data(), message.head.size());
    if (!message.body.empty())
        std::memcpy(to + message.head.size(), message.body.data(), message.body.size());
    slots_[index] = {static_cast<std::uint32_t>(message.head.size() + message.body.size()),
                     message.channel, message.kind};
}

// Once in the inbox, until the lane takes it out: it then looks for all that was filled before.
Errc Sender::Impl::announce() noexcept {
    if (queued_.exchange(true)) return Errc::ok;
    const std::shared_ptr<Lane::Impl> lane = place_.lane();
    if (lane == nullptr) return Errc::ok;  // so the connection has ended
    if (generation_ != fork_generation()) [[unlikely]]
        return refusal();
    self_ = shared_from_this();
    lane->inbox().push(*this);
    return Errc::ok;
}

Errc Sender::Impl::refusal() noexcept {
    if (generation_ == fork_generation()) return Errc::would_block;
    end(Errc::permission_denied);
    return Errc::permission_denied;
}

// While it is blocked, the lane retries it anyway, once.
void Sender::Impl::leave_inbox() noexcept {
    const std::shared_ptr<Impl> alive = std::move(self_);
    is_parked_ = parks_;
    if (is_parked_) return;
    queued_.exchange(false);
    if (!blocked_) drain();
}

bool Sender::Impl::park() noexcept {
    // The next poll takes it from the stalled items, where it may be.
    if (!std::exchange(parks_, true)) return false;
    is_parked_ = is_parked_ || !queued_.exchange(true);
    return is_parked_;
}

// Producers see the lane by the exchange.
void Sender::Impl::unpark(InboxPlace* place) noexcept {
    if (!std::exchange(parks_, false)) return;
    if (place != nullptr) place_.swap(*place);
    if (std::exchange(is_parked_, false)) queued_.exchange(false);
    drain();
}

void Sender::Impl::drain() noexcept {
    if (parks_) return;
    if (blocked_) {
        if (!post(next_)) return wait_for_room();
        blocked_ = false;
    }
    for (std::uint32_t index = 0; filled_.pop(index);) {
        if (post(index)) continue;
        next_ = index;
        blocked_ = true;
        return wait_for_room();
    }
}

// In the lane's thread, so the lane is there.
void Sender::Impl::wait_for_room() noexcept { place_.lane()->stalled().add(shared_from_this()); }

// False: there is no room. The message of an ended connection is dropped.
bool Sender::Impl::post(std::uint32_t index) noexcept {
    const Slot& slot = slots_[index];
    if (target_.owner != nullptr) {
        const OutgoingMessage message{slot.channel, slot.kind, {payload_of(index), slot.bytes}, {}};
        const Errc error = target_.send(target_.owner, message);
        if (error == Errc::would_block) return false;
        if (error != Errc::ok) end(error);
    }
    free_.push(index);
    return true;
}

void Sender::Impl::end(Errc why) noexcept {
    target_.owner = nullptr;
    ended_.store(why, std::memory_order_relaxed);
}

}  // namespace verbatim

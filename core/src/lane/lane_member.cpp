// Looking, arming, and messages.
#include "lane_member.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "polled_set.hpp"

namespace verbatim {
namespace {

Errc tell_keys(const MemberEvents& events, std::span<const std::byte> bytes) noexcept {
    std::array<std::uint32_t, ring::kMostKeys> keys;
    if (bytes.empty() || bytes.size() > sizeof keys || bytes.size() % sizeof keys[0] != 0)
        return Errc::protocol_error;
    std::memcpy(keys.data(), bytes.data(), bytes.size());
    const auto ended = std::span(keys).first(bytes.size() / sizeof keys[0]);
    std::ranges::sort(ended);
    if (events.keys_ended != nullptr) events.keys_ended(events.owner, ended);
    return Errc::ok;
}

}  // namespace

void Message::give_back() noexcept {
    if (owner_ != nullptr)
        owner_->release(number_);
    else
        delete[] copy_;
    owner_ = nullptr;
    copy_ = nullptr;
    payload_ = {};
}

Errc next_behind_parts(LaneMember& member, Errc error, Record& record, Message& message) noexcept {
    for (int left = LaneMember::kMostFragments; error == Errc::ok; --left) {
        if (record.frame == ring::Frame::message) return error;
        error = member.take_part(record, message);
        if (error != Errc::would_block) break;
        if (left == 0) {
            member.tell_again();
            break;
        }
        error = member.ring().next(record);
    }
    member.broken_ |= error > Errc::would_block;
    return error;
}

Errc take_notices(LaneMember& member) noexcept {
    Errc error = member.broken_ ? Errc::protocol_error : Errc::ok;
    for (int left = LaneMember::kMostFragments;
         left != 0 && error == Errc::ok && member.ring().receiver().skip_pads(); --left) {
        Record record;
        error = member.ring_.next(record);
        if (error != Errc::ok) break;
        // The peer may have changed it meanwhile.
        const bool is_notice = record.frame == ring::Frame::ended_keys;
        error = is_notice ? tell_keys(member.events_, record.payload) : Errc::protocol_error;
        member.release(record.number);
    }
    member.broken_ |= error > Errc::would_block;
    return error;
}

// ok: `message` is whole; would_block: it is not yet, or the record was none of a message.
// Allocates: what is longer than a record cannot be a view into the ring.
Errc LaneMember::take_part(const Record& record, Message& message) noexcept {
    const bool is_fragment = record.frame == ring::Frame::fragment;
    const Errc error = is_fragment ? fragments_.add(record) : tell_keys(events_, record.payload);
    release(record.number);
    if (error == Errc::out_of_memory) fail(error);
    if (error != Errc::ok) return Errc::protocol_error;  // after the first reason this one is mute
    if (!is_fragment || !fragments_.is_whole()) return Errc::would_block;
    message.copy_ = fragments_.take();
    message.payload_ = {message.copy_, fragments_.size()};
    message.channel_ = fragments_.channel();
    message.kind_ = fragments_.kind();
    return Errc::ok;
}

Message LaneMember::copy_of(Message&& message) {
    if (message.copy_ != nullptr) return std::move(message);
    Message copy;
    const std::size_t bytes = message.payload_.size();
    copy.copy_ = new std::byte[bytes + 1];
    if (bytes != 0) std::memcpy(copy.copy_, message.payload_.data(), bytes);
    copy.payload_ = {copy.copy_, bytes};
    copy.channel_ = message.channel_;
    copy.kind_ = message.kind_;
    message.release();
    return copy;
}

Errc LaneMember::try_batch(const OutgoingMessage& message) noexcept {
    const Errc error = ring().try_batch(message);
    if (!polling.is_polled) [[unlikely]]
        polled_->add(*this);
    return error;
}

Errc LaneMember::try_claim(const OutgoingMessage& message, std::size_t bytes,
                           Claim& claim) noexcept {
    RingClaims::Place place;
    const Errc error = ring().try_claim(message, bytes, place);
    if (error != Errc::ok) return error;
    Claim made;
    made.owner_ = this;
    made.bytes_ = {place.payload, bytes};
    made.number_ = place.number;
    ++claims_;
    claim = std::move(made);
    return Errc::ok;
}

Errc LaneMember::commit(std::uint32_t claim, std::size_t used) noexcept {
    if (polled_->is_inherited()) [[unlikely]]
        return Errc::permission_denied;
    const auto guard = polled_->enter("a lane whose claim is committed");
    --claims_;
    if (has_left_ || ended_) return Errc::peer_lost;
    ring().claims().commit(claim, used);
    const Errc error = ring_.settle_claims();
    if (error > Errc::would_block) fail(error);
    if (error == Errc::would_block) polled_->add(*this);
    return error == Errc::would_block ? Errc::ok : error;
}

void LaneMember::abandon(std::uint32_t claim) noexcept {
    if (polled_->is_inherited()) [[unlikely]]
        return;
    const auto guard = polled_->enter("a lane whose claim is abandoned");
    --claims_;
    if (has_left_ || ended_) return;
    ring().claims().abandon(claim);
    // What is behind it may go now.
    if (ring_.owes()) polled_->add(*this);
}

Errc Claim::commit(std::size_t used) noexcept {
    if (used > bytes_.size() || owner_ == nullptr) return Errc::invalid_argument;
    return std::exchange(owner_, nullptr)->commit(number_, used);
}

void Claim::abandon() noexcept { std::exchange(owner_, nullptr)->abandon(number_); }

void LaneMember::release(std::uint32_t number) noexcept {
    if (polled_->is_inherited()) [[unlikely]]
        return;
    const auto guard = polled_->enter("a lane whose message is given back");
    const bool was_full = ring_.receiver().is_full();
    if (has_left_) [[unlikely]]
        return ring().receiver().release(number);
    ring().release(number);
    // A credit that found the queue full is owed: the lane goes on with it.
    if (!polling.is_polled && ring_.owes()) [[unlikely]]
        polled_->add(*this);
    if (was_full) [[unlikely]]
        tell_again();
}

void LaneMember::tell_again() noexcept {
    tells_again = true;
    polling.words.are_valid = false;
    if (!has_left_) polled_->add(*this);
}

// The owner may end this member when it is told.
bool LaneMember::look() noexcept {
    if (receiver_.has_read()) settle();
    if (const Errc error = ring_.progress(); error > Errc::would_block) [[unlikely]]
        fail(error);
    MessageRing::News news;
    if (const Errc error = ring_.look(news); error != Errc::ok) [[unlikely]]
        fail(error);
    const bool tells = std::exchange(tells_again, false) || news.records != 0;
    if (tells && events_.arrived != nullptr) events_.arrived(events_.owner);
    return tells || news.has_credit;
}

void LaneMember::settle() noexcept {
    const Errc error =
        ring_.holds(receiver_.awaited(Thing::record), receiver_.awaited(Thing::credit));
    if (error == Errc::ok) return receiver_.settle();
    if (error != Errc::would_block) fail(error);
}

LaneMember::Rest LaneMember::arm(ArrivalReceiver::Wake wake) noexcept {
    polling.words.are_valid = false;
    if (is_always_hot) return Rest::none;
    if (ended_) return Rest::quiet;  // the owner was told; nothing more will come
    // A queue pair that is given up is not armed any more.
    if (path_.room().is_paused()) return Rest::restless;
    if (receiver_.has_read()) settle();
    // Its completions wake a lane whose queue was full.
    if (ring_.owes()) return Rest::restless;
    if (receiver_.can_arm())
        if (const Errc error = receiver_.arm(wake); error != Errc::ok) {
            if (error != Errc::would_block) fail(error);
            return ended_ ? Rest::quiet : Rest::restless;
        }
    return receiver_.is_armed() ? Rest::quiet : Rest::restless;
}

void LaneMember::take_news() noexcept {
    QueueUser& user = path_.user();
    if (user.error() != Errc::ok) return fail(user.error());
    if (user.was_sent_to() || user.immediates() > 1) return fail(Errc::protocol_error);
    if (user.immediates() == 0) return;
    if (const Errc error = receiver_.take_immediate(user.take_immediate()); error != Errc::ok)
        return fail(error);
    polled_->add(*this);
}

void LaneMember::rebind(const MemberQueues& queues) noexcept {
    queues.user.set_owner(this);
    path_.rebind(queues.queue, queues.user);
    sender_.restart(queues.posted, queues.remote_note);
    receiver_.restart();
    polled_ = &queues.polled;
    is_always_hot = queues.posted == nullptr;
    polling.note = &queues.note;
}

void LaneMember::fail(Errc why) noexcept {
    end();
    if (events_.failed != nullptr) events_.failed(events_.owner, why);
}

}  // namespace verbatim

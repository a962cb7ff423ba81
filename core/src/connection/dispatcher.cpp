// Order of messages: kept copies, then the waiting one, then the ring.
#include "dispatcher.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim {

void Dispatcher::set_handler(std::uint8_t channel, ChannelHandler handler) {
    if (index_[channel] != kNone || handlers_.size() == kNone)
        throw Error(Errc::invalid_argument, fmt::format("channel {}", channel), "it has a handler",
                    "choose another channel");
    telemetry::MemberHistograms* const times = member_.telemetry.times.get();
    ChannelHandler called = times == nullptr ? handler : times->wrap(channel, handler);
    handlers_.push_back({std::move(handler), std::move(called), {channel, 0, 0}});
    index_[channel] = static_cast<std::uint8_t>(handlers_.size() - 1);
    // It may have come before its handler.
    if (waiting_ && waiting_.channel() == channel) call(handlers_.back(), waiting_);
}

void Dispatcher::count(telemetry::ConnectionCounts& counts) const noexcept {
    std::size_t at = 0;
    telemetry::ChannelCounts others = others_;
    const auto add = [](telemetry::ChannelCounts& to, const telemetry::ChannelCounts& more) {
        to.messages += more.messages;
        to.bytes += more.bytes;
    };
    for (const Handled& one : handlers_) {
        if (at < telemetry::kMostChannels)
            counts.channels[at++] = one.counts;
        else
            add(others, one.counts);
    }
    counts.channels[at++] = others;
    counts.channel_count = at;
    for (const telemetry::ChannelCounts& one : std::span(counts.channels).first(at)) {
        counts.messages_received += one.messages;
        counts.bytes_received += one.bytes;
    }
}

void Dispatcher::call(const Handled& handled, Message& message) noexcept {
    const Lane::Impl::InHandler inside(*lane_);
    const bool before = std::exchange(handling_, true);
    Message handed = std::move(message);
    const ChannelHandler& handler = handled.called;
    if (handle_ != nullptr) handler.call(handler.state.get(), *handle_, handed);
    handling_ = before;
}

Errc Dispatcher::handle() noexcept {
    if ((handlers_.empty() && !watches_) || handling_) return Errc::would_block;
    for (int left = kMostAtOnce; !waiting_ && !closed_; --left) {
        if (left == 0) {
            member_.tell_again();
            break;
        }
        Message message;
        if (const Errc error = member_.next(message); error != Errc::ok) return error;
        if (const Handled* const of = handled(message))
            call(*of, message);
        else
            waiting_ = std::move(message);
    }
    return Errc::would_block;
}

bool Dispatcher::keep(Message&& message) noexcept {
    const std::size_t bytes = message.payload().size() + sizeof(Message);
    // One of any length: else the longest could never be kept.
    if (!kept_.empty() && bytes > kMostKept - std::min(kept_bytes_, kMostKept)) return false;
    try {
        kept_.push_back(LaneMember::copy_of(std::move(message)));
    } catch (const std::bad_alloc&) {
        return false;
    }
    kept_bytes_ += bytes;
    return true;
}

Errc Dispatcher::handle_all() noexcept {
    if (handling_ || closed_) return Errc::would_block;
    Errc error = Errc::would_block;
    do {
        if (waiting_ && !keep(std::move(waiting_))) return Errc::out_of_memory;
        waiting_.release();
        error = handle();
    } while (waiting_ && !closed_);
    return error;
}

void Dispatcher::drop() noexcept {
    index_.fill(kNone);
    waiting_.release();
    std::exchange(kept_, {}).clear();
    std::exchange(handlers_, {}).clear();
}

// Of what has come already, or not now.
Errc Dispatcher::receive_kept(Message& message) noexcept {
    if (closed_) return Errc::would_block;
    if (!kept_.empty()) {
        message = std::move(kept_.front());
        kept_.pop_front();
        kept_bytes_ -= message.payload().size() + sizeof(Message);
        return Errc::ok;
    }
    if (!waiting_) return Errc::would_block;
    message = std::move(waiting_);
    if (!handlers_.empty() || watches_) member_.tell_again();  // of those behind it
    return Errc::ok;
}

// The message has a handler.
Errc Dispatcher::receive_behind(const Handled& handled, Message& message) noexcept {
    const Handled* of = &handled;
    for (int left = kMostAtOnce - 1;; --left) {
        call(*of, message);
        if (closed_) return Errc::would_block;
        if (left == 0) break;
        if (const Errc error = member_.next(message); error != Errc::ok) return error;
        of = this->handled(message);
        if (of == nullptr) return Errc::ok;
    }
    member_.tell_again();
    return Errc::would_block;
}

}  // namespace verbatim

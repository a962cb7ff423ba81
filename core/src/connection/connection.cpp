// The public face of a connection: the thread check, the blocking forms, memory that is lent.
#include <verbatim/core/connection.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waiting.hpp"

namespace verbatim {
namespace {

bool is_of_layers(std::uint8_t channel) noexcept { return channel >= kLayerChannels; }

[[noreturn]] void refuse_long(const Connection::Impl& impl, std::size_t bytes,
                              std::size_t longest) {
    impl.check();
    throw Error(Errc::message_too_large, "message to " + impl.channel.name(),
                fmt::format("it has {} bytes, and the peer takes {}", bytes, longest),
                "raise longest_message in the receiver's section [ring], or send a graph");
}

// One at a time: the receiver puts one message together.
void send_fragments(Connection::Impl& impl, const OutgoingMessage& message, Deadline deadline) {
    if (impl.sending.is_long)
        throw Error(Errc::would_deadlock, "connection to " + impl.channel.name(),
                    "a task sends a long message while another is under way",
                    "send it when that call has returned");
    impl.sending.is_long = true;
    const std::unique_ptr<bool, void (*)(bool*)> over(&impl.sending.is_long,
                                                      [](bool* b) { *b = false; });
    const std::size_t most = impl.member.ring().sender().max_payload();
    for (OutgoingFragments fragments(message); !fragments.is_over(); fragments.advance()) {
        wait_for(impl, deadline, [&] { return impl.try_send(fragments.next(most)); });
        ++impl.member.ring().sender().counts().fragments;
    }
    ++impl.member.ring().sender().counts().fragmented;
}

}  // namespace

Connection::Connection(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {
    impl_->handle = this;
}

Connection::Connection(Connection&& other) noexcept : impl_(std::move(other.impl_)) {
    if (impl_ != nullptr) impl_->handle = this;
}

Connection& Connection::operator=(Connection&& other) noexcept {
    const Connection ended(std::move(*this));
    impl_ = std::move(other.impl_);
    if (impl_ != nullptr) impl_->handle = this;
    return *this;
}

Connection::~Connection() {
    if (impl_ == nullptr) return;
    // It is the parent's. Nothing of it can be ended here, so the child's copy stays where it is.
    if (impl_->lane->polled().is_inherited()) {
        (void)impl_.release();
        return;
    }
    const std::shared_ptr<Lane::Impl> lane = impl_->lane;  // goes last
    const std::shared_ptr<Context::Impl> context = impl_->context;
    const auto guard = lane->enter();
    impl_.release()->abandon();
    if (!lane->in_handler()) context->quarantine->sweep();
}

Errc Connection::try_send(std::uint8_t channel, std::span<const std::byte> head,
                          std::span<const std::byte> body, std::uint8_t kind) noexcept {
    const auto guard = enter(*impl_);
    if (is_of_layers(channel)) [[unlikely]]
        return Errc::invalid_argument;
    return impl_->try_send({channel, kind, head, body});
}

Errc Connection::try_batch(std::uint8_t channel, std::span<const std::byte> head,
                           std::span<const std::byte> body, std::uint8_t kind) noexcept {
    const auto guard = enter(*impl_);
    if (is_of_layers(channel)) [[unlikely]]
        return Errc::invalid_argument;
    return impl_->try_batch({channel, kind, head, body});
}

Errc Connection::try_claim(std::uint8_t channel, std::size_t bytes, Claim& claim,
                           std::uint8_t kind) noexcept {
    const auto guard = enter(*impl_);
    if (is_of_layers(channel)) [[unlikely]]
        return Errc::invalid_argument;
    return impl_->try_claim({.channel = channel, .kind = kind}, bytes, claim);
}

Errc Connection::try_receive(Message& message) noexcept {
    Impl& impl = *impl_;  // a handler may end this handle
    const auto guard = enter(impl);
    const Errc error = impl.try_receive(message);
    if (error != Errc::would_block) [[likely]]
        return error;
    if (!impl.dispatcher.wants_poll(impl.endpoint->queue_pair().is_moved_by_polls())) return error;
    (void)impl.lane->poll();
    return impl.try_receive(message);
}

Sender Connection::sender() {
    const auto guard = enter(*impl_);
    if (impl_->sending.sender == nullptr) {
        const SenderTarget target{impl_.get(),
                                  [](void* impl, const OutgoingMessage& message) noexcept {
                                      return static_cast<Impl*>(impl)->try_batch(message);
                                  }};
        impl_->sending.sender = std::make_shared<Sender::Impl>(
            impl_->lane, target, impl_->member.ring().sender().max_payload());
    }
    return Sender(impl_->sending.sender);
}

std::size_t Connection::max_message_bytes() const noexcept {
    return impl_->member.ring().sender().max_payload();
}

std::size_t Connection::longest_message_bytes() const noexcept {
    return std::max<std::size_t>(max_message_bytes(), impl_->endpoint->longest_message());
}

void Connection::send_message(std::uint8_t channel, std::span<const std::byte> head,
                              std::span<const std::byte> body, Deadline deadline) {
    const auto guard = enter(*impl_);
    if (is_of_layers(channel)) refuse_channel(channel);
    const std::size_t bytes = head.size() + body.size();
    if (bytes > longest_message_bytes()) refuse_long(*impl_, bytes, longest_message_bytes());
    if (bytes > max_message_bytes()) [[unlikely]]
        return send_fragments(*impl_, {channel, 0, head, body}, deadline);
    wait_for(*impl_, deadline, [&] { return impl_->try_send({channel, 0, head, body}); });
}

Message Connection::receive_message(Deadline deadline) {
    const auto guard = enter(*impl_);
    Message message;
    wait_for(*impl_, deadline, [&] { return impl_->try_receive(message); });
    return message;
}

void Connection::set_handler(std::uint8_t channel, ChannelHandler handler) {
    if (is_of_layers(channel)) refuse_channel(channel);
    LayerChannel::set_handler(*this, channel, std::move(handler));
}

Errc LayerChannel::try_send(Connection& connection, std::uint8_t channel,
                            std::span<const std::byte> head, std::span<const std::byte> body,
                            std::uint8_t kind) noexcept {
    const auto guard = enter(*connection.impl_);
    return connection.impl_->try_send({channel, kind, head, body});
}

void LayerChannel::set_handler(Connection& connection, std::uint8_t channel,
                               ChannelHandler handler) {
    const auto guard = enter(*connection.impl_);
    connection.impl_->dispatcher.set_handler(channel, std::move(handler));
    connection.impl_->member.tell_again();
}

void Connection::add_end_handler(EndHandler handler) {
    const auto guard = enter(*impl_);
    impl_->told.handlers.push_back(std::move(handler));
    if (impl_->has_ended()) impl_->lane->pending().add(impl_->member);
}

void Connection::refuse_channel(std::uint8_t channel) {
    throw Error(Errc::invalid_argument, "channel " + std::to_string(channel),
                "it belongs to another layer",
                "use a channel below " + std::to_string(kLayerChannels));
}

const ChannelHandler* Connection::handler_of(std::uint8_t channel) const noexcept {
    return impl_->dispatcher.handler_of(channel);
}

Errc Connection::handle_all() noexcept {
    const auto guard = enter(*impl_);
    return impl_->handle_all();
}

Errc Connection::try_write(const std::byte* from, std::size_t bytes, std::uint64_t remote_address,
                           std::uint32_t remote_key, std::size_t& written,
                           const MemoryRegion* region) noexcept {
    const auto guard = enter(*impl_);
    written = 0;
    return post_one_sided(*impl_, [&](OneSidedRequests& requests) {
        // The device reads from there only.
        auto* const local = const_cast<std::byte*>(from);
        return requests.try_transfer(
            {mlx5::Opcode::write, false, local, bytes, {remote_address, remote_key}, region},
            written);
    });
}

Errc Connection::try_flush() noexcept {
    const auto guard = enter(*impl_);
    return impl_->judge(impl_->one_sided.try_flush());
}

Errc Connection::progress() noexcept {
    const auto guard = enter(*impl_);
    return impl_->progress();
}

void Connection::pause(unsigned round, Deadline deadline) {
    const auto guard = enter(*impl_);
    refuse_in_handler(*impl_);
    impl_->lane->pause(round, deadline);
}

Errc Connection::state() const noexcept {
    if (impl_->lane->polled().is_inherited()) [[unlikely]]
        inherit(*impl_);
    return impl_->told.state;
}
void Connection::check() const {
    if (state() != Errc::ok) impl_->check();
}
bool Connection::peer_closed() const noexcept { return impl_->told.closed; }
bool Connection::peer_took_all() const noexcept {
    MessageRing& ring = impl_->member.ring();
    const std::uint64_t behind = impl_->grants.notices().behind_messages(ring.sent());
    return ring.has_posted_all() && impl_->end().took_all(behind, ring.sent());
}
Lane Connection::lane() const noexcept { return Lane(impl_->lane); }

Arena& Connection::arena() noexcept { return impl_->context->arenas.objects.arena(); }
Arena& Connection::receive_arena() noexcept { return impl_->context->arenas.received.arena(); }
std::shared_ptr<Arena> Connection::arena_ptr() noexcept {
    return impl_->context->arenas.objects.arena_ptr();
}
std::shared_ptr<Arena> Connection::receive_arena_ptr() noexcept {
    return impl_->context->arenas.received.arena_ptr();
}

const Config& Connection::config() const noexcept { return impl_->context->config; }
const std::string& Connection::peer_name() const noexcept { return impl_->channel.name(); }

}  // namespace verbatim

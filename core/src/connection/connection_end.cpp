// How a connection notices its end.
#include <algorithm>

#include <fmt/format.h>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {
namespace {

// The connection has ended, and all that came before is here.
bool has_all(Connection::Impl& impl) noexcept {
    const RingReceiver& ring = impl.member.ring().receiver();
    return impl.has_ended() && !ring.ready() && !impl.end().may_be_early(ring.position());
}

// Once. Messages wait for the program, which may never ask for them.
void tell_early(Connection::Impl& impl) noexcept {
    while (impl.handle != nullptr) {
        const auto at = std::ranges::find(impl.told.handlers, true, &EndHandler::early);
        if (at == impl.told.handlers.end()) return;
        const EndHandler handler = std::move(*at);
        impl.told.handlers.erase(at);
        handler.call(handler.state.get(), *impl.handle);
    }
}

}  // namespace

Errc Connection::Impl::progress() noexcept {
    (void)lane->poll();
    settle_end();
    return told.state;
}

void Connection::Impl::look_at_side_channel() noexcept {
    if (end_.noticed()) return;
    try {
        // What one read brings, at most.
        for (auto frame = channel.try_receive(); frame && !end_.noticed(); frame = channel.next())
            if (frame->type == FrameType::bye)
                note_end(parse_bye(frame->body, channel.name()));
            else
                moving.hear(*frame);
    } catch (const Error& error) {
        log::debug("{}", error.what());
        note_end(error.code() == Errc::peer_lost ? Errc::peer_lost : Errc::protocol_error);
    } catch (...) {
        note_end(Errc::out_of_memory);
    }
}

template <class Why>
void Connection::Impl::note_end(Why why) noexcept {
    if (end_.noticed()) return;
    end_.note(why);
    one_sided.prepared().end_all();
    member.end();
    lane->pending().add(member);
    lane->forget(channel.socket().get());  // it would be readable for ever
    log::debug("{}: {}", channel.name(), end_.is_bye() ? "the peer closed" : describe(end_.why()));
    // What came before the bye may still be under way: it is looked for until then.
    lane->polled().add(member);
    // Nobody will answer any more: what is outstanding shall retire, with an error.
    if (!end_.is_bye()) endpoint->queue_pair().fail();
}

// The end becomes visible once nothing that came before it is left.
void Connection::Impl::settle_end() noexcept {
    if (!end_.noticed() || told.state != Errc::ok) [[likely]]
        return;
    const RingReceiver& ring = member.ring().receiver();
    // Notices are none of the program's: it may never ask for what is in the ring.
    if (take_notices(member) > Errc::would_block) return void(told.state = end_.why());
    if (dispatcher.has_message() || !has_all(*this)) return;
    told.closed = end_.is_whole(ring.position());
    told.state = end_.why();
}

void inherit(Connection::Impl& impl) noexcept {
    if (impl.told.state == Errc::permission_denied) return;
    impl.end_.note(Errc::permission_denied);
    impl.told.state = Errc::permission_denied;
    impl.dispatcher.close();
    impl.member.end();
    impl.member.path().user().inherit();
    if (impl.sending.sender != nullptr) impl.sending.sender->end(Errc::permission_denied);
}

void supersede(Connection::Impl& impl) noexcept {
    if (impl.told.state == Errc::ok) {
        (void)impl.judge(Errc::peer_lost);
        impl.dispatcher.close();
        impl.told.state = impl.why_ended();
        impl.lane->pending().add(impl.member);  // which tells of it
    }
    impl.told.client.cut();
}

std::optional<ClientIdentity> client_of(Connection& connection) noexcept {
    const ClientSession* const session = LayerAccess::impl_of(connection).told.client.session();
    return session == nullptr ? std::nullopt : std::optional(session->client());
}

void Connection::Impl::go_on() noexcept {
    if (handle == nullptr) {
        (void)closing_.go_on();
        return one_sided.waiters().look();
    }
    moving.go_on();
    one_sided.waiters().look();
    if (handle == nullptr) return;
    const bool is_done = go_on_with_grants() && !moving.is_busy() && one_sided.waiters().empty();
    if (handle == nullptr) return;  // an owner of lent memory ended it
    settle_end();
    if (told.state == Errc::ok && has_all(*this)) tell_early(*this);
    if (handle == nullptr) return;
    if (is_done && (!end_.noticed() || told.state != Errc::ok)) lane->pending().remove(member);
    if (told.state != Errc::ok) tell_end();
}

// Owners of lent memory may end here: no call that is under way may rely on this connection or on
// others, but for those of a poll. True: nothing is left to do.
bool Connection::Impl::go_on_with_grants() noexcept {
    if (end_.noticed() && !end_.is_bye()) grants.abandon();
    const bool is_done = grants.progress();
    context->quarantine->sweep();
    return is_done;
}

// Once.
void Connection::Impl::tell_end() noexcept {
    // The last of them may end this object.
    for (const auto handlers = std::exchange(told.handlers, {});
         const EndHandler& handler : handlers)
        if (handle != nullptr) handler.call(handler.state.get(), *handle);
}

Errc Connection::Impl::nothing_to_receive() noexcept {
    if (told.state != Errc::ok) return told.state;
    if (!end_.noticed()) [[likely]]
        return Errc::would_block;
    settle_end();
    return told.state == Errc::ok ? Errc::would_block : told.state;
}

Errc Connection::Impl::fail(Errc why) noexcept {
    look_at_side_channel();  // the queue pair often fails because the peer closed or died
    const bool silent = why == Errc::retry_exceeded || endpoint->queue_pair().peer_lost();
    note_end(silent ? Errc::peer_lost : why);
    if (why == Errc::protocol_error)
        told.state = end_.why();  // nothing in that ring can be believed
    settle_end();
    return told.state != Errc::ok ? told.state : end_.why();
}

void Connection::Impl::check() const {
    if (told.state == Errc::ok) return;
    const std::string object = "connection to " + channel.name();
    if (told.closed) throw Error(Errc::peer_lost, object, "the peer closed it", "connect again");
    if (lane->polled().is_inherited())
        throw Error(told.state, object, "it is the parent's: a forked child cannot use it",
                    "make a context in the child, and connect");
    if (told.state == Errc::idle)
        throw Error(Errc::idle, object, std::string(describe(Errc::idle)));
    std::string why = endpoint->queue_pair().failure_text();
    if (why.empty()) why = context->events.last();  // a port that went down, for instance
    std::string cause(told.state == Errc::peer_lost ? "the peer died or can no longer be reached"
                                                    : describe(told.state));
    if (!why.empty()) cause += fmt::format(" ({})", why);
    throw Error(told.state, object, std::move(cause), "connect again");
}

}  // namespace verbatim

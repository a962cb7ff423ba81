// How a connection notices its end and closes.
#include <immintrin.h>
#include <sched.h>

#include <algorithm>

#include <fmt/format.h>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {

Errc Connection::Impl::progress() noexcept {
    (void)lane->poll();
    settle_end();
    return state;
}

void Connection::Impl::look_at_side_channel() noexcept {
    if (end_.noticed()) return;
    try {
        const auto frame = channel.try_receive();
        if (!frame) return;
        if (frame->type != FrameType::bye) return note_end(Errc::protocol_error);
        note_end(parse_bye(frame->body, channel.name()));
    } catch (const Error& error) {
        note_end(error.code() == Errc::peer_lost ? Errc::peer_lost : Errc::protocol_error);
    } catch (...) {
        note_end(Errc::out_of_memory);
    }
}

template <class Why>
void Connection::Impl::note_end(Why why) noexcept {
    if (end_.noticed()) return;
    end_.note(why);
    member.end();
    lane->ending().add(member);
    lane->forget(channel.socket().get());  // it would be readable for ever
    log::debug("{}: {}", channel.name(), end_.is_bye() ? "the peer closed" : describe(end_.why()));
    // What came before the bye may still be under way: it is looked for until then.
    lane->polled().add(member);
    // Nobody will answer any more: what is outstanding shall retire, with an error.
    if (!end_.is_bye()) endpoint->queue_pair().fail();
}

// The end becomes visible once nothing that came before it is left.
void Connection::Impl::settle_end() noexcept {
    if (!end_.noticed() || state != Errc::ok) [[likely]]
        return;
    RingReceiver& ring = member.ring().receiver();
    ring.skip_pads();
    if (dispatcher.has_message() || ring.ready()) return;
    if (end_.may_be_early(ring.position())) return;
    closed = end_.is_whole(ring.position());
    state = end_.why();
}

// Of a poll: tells of the end once.
void Connection::Impl::await_end() noexcept {
    settle_end();
    if (state == Errc::ok) return;
    lane->ending().remove(member);
    // The last of them may end this object.
    for (const auto handlers = std::exchange(on_end, {}); const EndHandler& handler : handlers)
        if (handle != nullptr) handler.call(handler.state.get(), *handle);
}

Errc Connection::Impl::nothing_to_receive() noexcept {
    if (!end_.noticed()) [[likely]]
        return Errc::would_block;
    settle_end();
    return state == Errc::ok ? Errc::would_block : state;
}

Errc Connection::Impl::fail(Errc why) noexcept {
    look_at_side_channel();  // the queue pair often fails because the peer closed or died
    const bool silent = why == Errc::retry_exceeded || endpoint->queue_pair().peer_lost();
    note_end(silent ? Errc::peer_lost : why);
    if (why == Errc::protocol_error) state = end_.why();  // nothing in that ring can be believed
    settle_end();
    return state != Errc::ok ? state : end_.why();
}

void Connection::Impl::check() const {
    if (state == Errc::ok) return;
    const std::string object = "connection to " + channel.name();
    if (closed) throw Error(Errc::peer_lost, object, "the peer closed it", "connect again");
    if (state == Errc::peer_lost)
        throw Error(state, object, "the peer died or can no longer be reached", "connect again");
    const std::string why = endpoint->queue_pair().failure_text();
    throw Error(
        state, object,
        why.empty() ? std::string(describe(state)) : fmt::format("{} ({})", describe(state), why),
        "connect again");
}

// Waits until the device has done all that was accepted, so that the peer has everything before it
// reads the bye. False: it did not, or the peer's end came first.
bool Connection::Impl::drain() noexcept {
    const Deadline limit = Deadline::after(context->config.connect.timeout);
    SendPath& path = member.path();
    MessageRing& ring = member.ring();
    ring.claims().abandon_all();  // so that what is behind them goes
    for (unsigned round = 0; !ring.has_posted_all() || path.retired() != path.accepted(); ++round) {
        if (ring.progress() > Errc::would_block) return false;
        if (path.poll() != Errc::ok || limit.passed(round)) return false;
        if (path.signal_last() > Errc::would_block) return false;
        if (round % 64 == 63) {
            look_at_side_channel();
            sched_yield();  // the peer may have to take something
        }
        if (end_.noticed()) return false;
        _mm_pause();
    }
    return true;
}

void Connection::Impl::close() noexcept {
    if (end_.noticed() || !drain()) return;  // without a bye: the peer sees a loss, as it is one
    member.ring().receiver().skip_pads();
    // What waits for the program has left the ring, but nobody has taken it.
    const std::uint64_t taken = dispatcher.has_message() ? 0 : member.ring().receiver().position();
    try {
        channel.send(FrameType::bye, encode_bye({member.ring().sent(), taken}),
                     Deadline::after(context->config.connect.timeout));
        channel.finish();
    } catch (const std::exception& error) {
        log::debug("{}: could not say bye ({})", channel.name(), error.what());
    }
}

}  // namespace verbatim

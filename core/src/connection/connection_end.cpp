// How a connection waits, notices its end and closes.
#include <immintrin.h>
#include <poll.h>

#include <algorithm>

#include <fmt/format.h>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {
namespace {

using std::chrono::microseconds;

constexpr microseconds kLookEvery{
    50};  // a system call costs as much as several polls; death may wait
constexpr unsigned kCallsPerClock = 64;  // and so does reading the clock
constexpr unsigned kRoundsPerClock = 16;
constexpr microseconds kShortestSleep{5};
constexpr std::chrono::seconds kCloseLimit{1};

}  // namespace

Errc Connection::Impl::progress() noexcept {
    if (const Errc error = path.poll(); error != Errc::ok) [[unlikely]]
        return fail(error);
    if (const Errc error = ring.progress(); error > Errc::would_block) [[unlikely]]
        return fail(error);
    if (++progress_calls_ % kCallsPerClock == 0) {
        const auto now = Clock::now();
        if (now - looked_ >= kLookEvery) look_at_side_channel();
    }
    settle_end();
    return state;
}

void Connection::Impl::pause(unsigned round) noexcept {
    if (round == 0) {
        wait_began_ = Clock::now();
        sleeping_ = false;
    }
    if (!sleeping_ && round % kRoundsPerClock != kRoundsPerClock - 1) return _mm_pause();
    const auto now = Clock::now();
    const auto waited = now - wait_began_;
    sleeping_ = waited >= context->config.wait.spin;
    if (sleeping_) return sleep(waited - context->config.wait.spin);
    if (now - looked_ >= kLookEvery) look_at_side_channel();
}

// Sleeps in proportion to the time already waited: short waits stay short, long ones cost little.
// Any sign of life on the side channel ends it.
void Connection::Impl::sleep(Clock::duration waited) noexcept {
    const Clock::duration longest = context->config.wait.sleep_max;
    const auto span =
        std::min<Clock::duration>(std::max<Clock::duration>(waited / 4, kShortestSleep), longest);
    const timespec time{std::chrono::duration_cast<std::chrono::seconds>(span).count(),
                        std::chrono::nanoseconds(span % std::chrono::seconds(1)).count()};
    // After the end the socket would be readable for ever.
    pollfd entry{!end_.noticed() ? channel.socket().get() : -1, POLLIN, 0};
    if (ppoll(&entry, 1, &time, nullptr) > 0) look_at_side_channel();
}

void Connection::Impl::look_at_side_channel() noexcept {
    looked_ = Clock::now();
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
    log::debug("{}: {}", channel.name(), end_.is_bye() ? "the peer closed" : describe(end_.why()));
    // Nobody will answer any more: what is outstanding shall retire, with an error.
    if (!end_.is_bye()) endpoint->queue_pair().fail();
}

// The end becomes visible once nothing that came before it is left.
void Connection::Impl::settle_end() noexcept {
    if (!end_.noticed() || state != Errc::ok) [[likely]]
        return;
    if (ring.holds() || ring.ready() || !aside_.empty()) return;
    if (end_.may_be_early(ring.consumed())) return;
    closed = end_.is_whole(ring.consumed());
    state = end_.why();
}

Errc Connection::Impl::nothing_to_receive() noexcept {
    if (!end_.noticed()) [[likely]]
        return Errc::would_block;
    settle_end();
    return state == Errc::ok ? Errc::would_block : state;
}

Errc Connection::Impl::fail(Errc why) noexcept {
    look_at_side_channel();  // the queue pair often fails because the peer closed or died
    note_end(endpoint->queue_pair().peer_lost() ? Errc::peer_lost : why);
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
// reads the bye.
void Connection::Impl::close() noexcept {
    const Deadline limit = Deadline::after(kCloseLimit);
    for (unsigned round = 0; !end_.noticed() && path.retired() != path.accepted(); ++round) {
        if (path.poll() != Errc::ok || limit.passed())
            return;  // without a bye: the peer sees a loss, as it is one
        const Errc signaled = path.signal_last();
        if (signaled > Errc::would_block) return;
        pause(round);
    }
    if (end_.noticed()) return;
    try {
        channel.send(FrameType::bye, encode_bye({ring.sent()}), limit);
        channel.finish();
    } catch (const std::exception& error) {
        log::debug("{}: could not say bye ({})", channel.name(), error.what());
    }
}

}  // namespace verbatim

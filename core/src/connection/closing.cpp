// The program's thread waits for a close, unless the lane is driven elsewhere or a handler runs.
// Then the lane's polls go on with it.
#include "closing.hpp"

#include <emmintrin.h>
#include <sched.h>

#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {

void Closing::begin() noexcept {
    ToldEnd& told = impl_.told;
    if (told.state == Errc::ok) told.state = Errc::peer_lost;
    impl_.moving.give_up();
    leaves_messages_ = impl_.dispatcher.has_message();
    impl_.member.end();
    impl_.grants.hold_ends();  // of layers, too, which go before the bye is said
    // What the program gave, which may hold the lane.
    told.handlers.clear();
    if (impl_.sending.sender) impl_.sending.sender->end(Errc::peer_lost);
    impl_.sending.sender.reset();
    impl_.member.ring().claims().abandon_all();  // so that what is behind them goes
    until_ = Deadline::after(impl_.context->config.connect.timeout);
}

bool Closing::go_on(unsigned round) noexcept {
    is_over_ = is_over_ || look(round);
    return is_over_;
}

bool Closing::look(unsigned round) noexcept {
    if (impl_.moving.is_busy()) {
        impl_.moving.go_on();
        return false;  // it has a deadline
    }
    if (impl_.has_ended()) return true;  // without a bye: the peer sees a loss, as it is one
    Errc error = Errc::ok;
    if (!has_said_bye_) error = drain();
    if (error == Errc::ok) error = take_back();
    return error != Errc::would_block || until_.passed(round);
}

// Ok: the device has done all that was accepted, so that the peer has everything before it reads
// the bye.
Errc Closing::drain() noexcept {
    SendPath& path = impl_.member.path();
    MessageRing& ring = impl_.member.ring();
    (void)take_notices(impl_.member);  // which the peer knows as taken then
    if (const Errc error = ring.progress(); error > Errc::would_block) return error;
    if (const Errc error = path.poll(); error != Errc::ok) return error;
    if (const Errc error = path.signal_last(); error > Errc::would_block) return error;
    if (!ring.has_posted_all() || path.retired() != path.accepted()) return Errc::would_block;
    say_bye();
    return Errc::ok;
}

// Behind the bye, so that a peer whose writes fail now knows of the end.
Errc Closing::take_back() noexcept {
    impl_.grants.end_all();
    if (const Errc error = impl_.member.path().poll(); error != Errc::ok) return error;
    return impl_.go_on_with_grants() ? Errc::ok : Errc::would_block;
}

void Closing::say_bye() noexcept {
    has_said_bye_ = true;
    MessageRing& ring = impl_.member.ring();
    (void)ring.receiver().skip_pads();
    // What waits for the program has left the ring, but nobody has taken it.
    const std::uint64_t taken = leaves_messages_ ? 0 : ring.receiver().position();
    try {
        impl_.channel.send(FrameType::bye, encode_bye({ring.sent(), taken}),
                           Deadline::after(impl_.context->config.connect.timeout));
        impl_.channel.finish();
    } catch (const std::exception& error) {
        log::debug("{}: could not say bye ({})", impl_.channel.name(), error.what());
    }
}

// Nothing is under way: all that was accepted is done before the bye.
void Closing::end_idle() noexcept {
    if (impl_.handle == nullptr || impl_.has_ended() || impl_.moving.is_busy() ||
        impl_.grants.lends() || impl_.dispatcher.has_message() ||
        !impl_.one_sided.waiters().empty() || impl_.sending.is_long)
        return;
    if (impl_.sending.sender != nullptr && impl_.sending.sender->has_queued()) return;
    log::info("{}: closed, as it was idle", impl_.channel.name());
    say_bye();
    (void)impl_.judge(Errc::idle);
}

void Closing::wait(Deadline limit) noexcept {
    for (unsigned round = 0; !go_on(round) && !limit.passed(round); ++round) {
        if (round % 64 == 63) {
            impl_.look_at_side_channel();
            sched_yield();  // the peer may have to take something
        }
        _mm_pause();
    }
}

}  // namespace verbatim

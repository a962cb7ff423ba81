// Calls of a connection's public face, and waits in them. Threads: the lane's.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "connection_impl.hpp"

namespace verbatim {

// Inside a call: of the lane's thread, and not to be destroyed.
class Inside {
  public:
    explicit Inside(Connection::Impl& impl) noexcept : use_(impl), guard_(impl.lane->enter()) {
        if (impl.lane->polled().is_inherited()) [[unlikely]]
            inherit(impl);
    }

  private:
    Connection::Impl::Use use_;  // ends last, as it may end the lane
    [[maybe_unused]] decltype(std::declval<Lane::Impl&>().enter()) guard_;
};

inline Inside enter(Connection::Impl& impl) noexcept { return Inside(impl); }

[[noreturn]] inline void raise(const Connection::Impl& impl, Errc error) {
    impl.check();
    throw Error(error, "connection to " + impl.channel.name(), std::string(describe(error)));
}

// Posts one-sided requests by `attempt(OneSidedRequests&)`. Messages come before those that follow
// them.
template <class Attempt>
Errc post_one_sided(Connection::Impl& impl, Attempt attempt) noexcept {
    if (impl.has_ended()) [[unlikely]]
        return impl.why_ended();
    if (impl.handle == nullptr) [[unlikely]]
        return Errc::flushed;  // it closes
    if (const Errc error = impl.judge(impl.member.ring().post_waiting()); error != Errc::ok)
        return error;
    return impl.judge(attempt(impl.one_sided));
}

inline void refuse_in_handler(const Connection::Impl& impl) {
    if (impl.lane->in_handler())
        throw Error(Errc::would_deadlock, "connection to " + impl.channel.name(),
                    "a handler of its lane called something that blocks",
                    "use try_send and try_receive in handlers");
}

inline void refuse_ended(const Connection::Impl& impl) {
    if (impl.handle == nullptr)
        throw Error(Errc::peer_lost, "connection to " + impl.channel.name(),
                    "a handler ended it during the call", "connect again");
}

// Held messages may be why a peer does nothing more.
[[noreturn]] inline void raise_timeout(const Connection::Impl& impl) {
    const RingReceiver& receiver = impl.member.ring().receiver();
    const bool is_held_up = receiver.is_full() || receiver.holds_half();
    throw Error(Errc::timeout, "connection to " + impl.channel.name(),
                is_held_up
                    ? fmt::format("messages that are held keep others from coming: {} {} held",
                                  receiver.held(), receiver.held() == 1 ? "is" : "are")
                    : "the peer did not act in time",
                is_held_up ? "release some, the oldest first"
                           : "see whether the peer is busy or stopped, or allow more time");
}

// One round of a wait, after an attempt that would block. `round`: how many came before it.
inline void wait_once(Connection::Impl& impl, unsigned round, Deadline deadline) {
    refuse_in_handler(impl);
    if (deadline.passed(round)) raise_timeout(impl);
    (void)impl.progress();
    refuse_ended(impl);
    warn_of_held(impl);
    impl.lane->pause(round, deadline);
    refuse_ended(impl);  // a pause polls, too
}

// Repeats `attempt` until it neither succeeds nor would block.
template <class Attempt>
void wait_for(Connection::Impl& impl, Deadline deadline, Attempt attempt) {
    for (unsigned round = 0;; ++round) {
        const Errc error = attempt();
        if (error == Errc::ok) return;
        if (error != Errc::would_block) raise(impl, error);
        wait_once(impl, round, deadline);
    }
}

}  // namespace verbatim

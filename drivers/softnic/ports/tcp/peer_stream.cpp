// The engine thread's side of a stream.
#include "peer_stream.hpp"

namespace verbatim::softnic {

void PeerStream::watch(EventThread& thread, const Driver& driver, Instant attach_by) {
    driver_ = driver;
    attach_by_ = attach_by;
    thread_ = &thread;
    number_ = thread.add(*this, wire_->beats());
}

void PeerStream::attach(Descriptor socket, Wire::Origin origin) {
    thread_->watch(socket ? socket.get() : wire_->socket(), number_, true);
    wire_->attach(std::move(socket), origin);
}

// Polls go on meanwhile, and may call the thread, which finds nobody to call.
void PeerStream::unwatch() noexcept {
    if (thread_ != nullptr) thread_->remove(number_);
}

// Stored first: the event may come at once, and says that it is not armed any more. Of what is
// unfinished it does: a socket can be written, or will be.
void PeerStream::arm() noexcept {
    if (thread_ == nullptr || !wire_->attached() || words().lost()) return;
    wire_->armed().store(true);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as Wire::settle()
    thread_->watch_again(wire_->socket(), number_, wire_->unfinished());
}

// Nobody looks again before the socket is ready, but something is to be done before.
void PeerStream::call_engine_thread() noexcept {
    if (wire_->unfinished()) arm();
    if (wire_->timed() && thread_ != nullptr) thread_->call();
}

void PeerStream::beat() noexcept {
    wire_->beat();
    if (wire_->timed()) thread_->call();
}

bool PeerStream::polled() noexcept {
    const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    const bool more = polls != seen_polls_;
    seen_polls_ = polls;
    return more && polls > handed_over_until_.load(std::memory_order_relaxed);
}

bool PeerStream::ready() noexcept {
    wire_->armed().store(false);
    return !wire_->attached() || polled() || drive_and_arm();
}

bool PeerStream::tick() noexcept {
    if (!wire_->attached() && !words().lost()) {
        if (std::chrono::steady_clock::now() >= attach_by_) wire_->expire();
        return true;
    }
    if (polled()) return true;
    const bool idle = wire_->armed() && !wire_->waits() && !wire_->timed();
    return !idle && drive_and_arm();
}

// Where a message waits for a receive, only another look can tell that one was posted.
bool PeerStream::drive_and_arm() noexcept {
    if (driver_.call == nullptr) return false;
    driver_.call(driver_.context);
    // A poller that was stopped inside has the socket stay ready: only ticks look again then.
    turned_away_ = wire_->occupied() ? turned_away_ + 1 : 0;
    if (turned_away_ > kMostTurnedAway) return true;
    arm();
    // A poller that came between may have left words for the next look.
    flush();
    return (wire_->waits() || wire_->timed()) && !words().lost();
}

}  // namespace verbatim::softnic

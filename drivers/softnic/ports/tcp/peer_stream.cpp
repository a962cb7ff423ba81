// The engine thread's side of a stream.
#include "peer_stream.hpp"

namespace verbatim::softnic {

void PeerStream::watch(EventThread& thread, const Driver& driver, Instant attach_by) {
    driver_ = driver;
    attach_by_ = attach_by;
    thread_ = &thread;
    number_ = thread.add(*this);
}

void PeerStream::attach(Descriptor socket, Stream::Origin origin) {
    thread_->watch(socket.get(), number_, true);
    stream_.attach(std::move(socket), origin);
}

void PeerStream::unwatch() noexcept {
    if (thread_ != nullptr) thread_->remove(number_);
    thread_ = nullptr;
}

// Stored first: the event may come at once, and says that it is not armed any more. Of what is
// unfinished it does: a socket can be written, or will be.
void PeerStream::arm() noexcept {
    if (thread_ == nullptr || !stream_.attached() || words().lost()) return;
    stream_.armed().store(true);
    thread_->watch_again(stream_.socket(), number_, stream_.unfinished());
}

bool PeerStream::polled() noexcept {
    const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    const bool more = polls != seen_polls_;
    seen_polls_ = polls;
    return more && polls > handed_over_until_.load(std::memory_order_relaxed);
}

bool PeerStream::ready() noexcept {
    stream_.armed().store(false);
    return !stream_.attached() || polled() || drive_and_arm();
}

bool PeerStream::tick() noexcept {
    if (!stream_.attached() && !words().lost()) {
        if (std::chrono::steady_clock::now() >= attach_by_) stream_.expire();
        return true;
    }
    if (polled()) return true;
    const bool idle = stream_.armed() && !stream_.waits();
    return !idle && drive_and_arm();
}

// Where a message waits for a receive, only another look can tell that one was posted.
bool PeerStream::drive_and_arm() noexcept {
    if (driver_.call == nullptr) return false;
    driver_.call(driver_.context);
    arm();
    // A poller that came between may have left words for the next look.
    flush();
    return stream_.waits() && !words().lost();
}

}  // namespace verbatim::softnic

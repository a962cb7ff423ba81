// Looks at one queue pair.
#include "absence.hpp"

#include <utility>

namespace verbatim::softnic {
namespace {

// Turns for a peer in one look; each takes a bounded number of records.
constexpr int kTurnsPerLook = 16;

}  // namespace

void Absence::bind(const QueuePairShared& shared, const Requester& requester,
                   const ReceiveEngine& responder) noexcept {
    if (poller_ == nullptr) return;
    shared_ = &shared;
    requester_ = &requester;
    responder_ = &responder;
}

void Absence::open() noexcept {
    if (poller_ != nullptr) poller_->open(*this);
}

void Absence::close() noexcept {
    if (poller_ != nullptr) poller_->close(*this);
}

// Either the poller sees what was left when it has dropped the queue pair, or it is seen dropped
// here.
void Absence::enter() noexcept {
    if (poller_ == nullptr) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (place_.load(std::memory_order_relaxed) == Place::outside) poller_->enter(*this, false);
}

void Absence::asked() noexcept {
    if (poller_ != nullptr) poller_->enter(*this, true);
}

void Absence::compare() noexcept {
    if (requester_ == nullptr) return;
    const std::uint64_t now = mark();
    if (polled_at_.exchange(now, std::memory_order_relaxed) == now) enter();
}

// Differs whenever a request was executed or retired, if not too many were.
std::uint64_t Absence::mark() const noexcept {
    return std::uint64_t{requester_->executed()} << 32 | requester_->outstanding();
}

// Requests of which nobody may hear when they could go on.
bool Absence::waits() const noexcept {
    return shared_->is(QueuePairState::ready) && !shared_->limits.paused.load() &&
           (requester_->unexecuted() || requester_->outstanding() != 0);
}

void Absence::begin() noexcept {
    looked_at_ = mark();
    polls_then_ = polls_.load(std::memory_order_relaxed);
}

AbsentPoller::Found Absence::look(bool asked) noexcept {
    const bool served = asked && serve();
    const AbsentPoller::Found found = look_at_requests();
    return served ? AbsentPoller::Found::effect : found;
}

// A program that polls needs no turn of ours, but its peer may.
AbsentPoller::Found Absence::look_at_requests() noexcept {
    using Found = AbsentPoller::Found;
    if (!waits()) return Found::nothing;
    const std::uint64_t now = mark();
    const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
    const bool polled = std::exchange(polls_then_, polls) != polls;
    if (std::exchange(looked_at_, now) != now) return Found::moving;
    if (!polled) turn_.run(turn_.context);
    looked_at_ = mark();
    if (looked_at_ != now) return Found::effect;
    if (!waits()) return Found::nothing;
    ask_peer();
    return Found::waiting;
}

// Takes what the peer has sent, a bounded number of records. False: there was nothing.
bool Absence::serve() noexcept {
    const ChannelReceiver& incoming = shared_->connection.incoming;
    const std::uint64_t before = incoming.consumed();
    for (int turn = 0; turn != kTurnsPerLook; ++turn) {
        turn_.run(turn_.context);
        if (!responder_->waiting() || responder_->not_ready()) break;
    }
    return incoming.consumed() != before;
}

// The link is there while the queue pair is ready, and until it is closed here.
void Absence::ask_peer() noexcept {
    if (shared_->traits.datagrams() || shared_->connection.link == nullptr) return;
    shared_->connection.link->ask_to_run(shared_->connection.peer_number);
}

}  // namespace verbatim::softnic

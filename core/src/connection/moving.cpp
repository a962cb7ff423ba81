// The steps of a move.
#include "moving.hpp"

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {
namespace {

using State = Move::State;

// Of the thread that connects: its lane may sleep.
struct Returning {
    Move& move;
    Lane::Impl& lane;
    ~Returning() {
        move.is_tried = true;
        lane.inbox().ring();
    }
};

[[noreturn]] void surplus(const std::string& object, const char* frame) {
    throw Error(Errc::protocol_error, object, std::string(frame) + " where none was due",
                "run released versions on both sides; please report it if they are");
}

}  // namespace

// ---- what the peer says ----

void Moving::hear(const Frame& frame) {
    if (move_ != nullptr && move_->state == State::ended) return;
    switch (frame.type) {
        case FrameType::move:
            return hear_move(frame);
        case FrameType::ready:
            return hear_ready();
        case FrameType::refused:
            return hear_refusal(frame);
        default:
            surplus(impl_.channel.name(), "a hello");
    }
}

void Moving::hear_move(const Frame& frame) {
    const std::string& name = impl_.channel.name();
    const Hello said = parse_hello(frame.body, name);
    check_move(impl_.endpoint->peer(), said, name);
    if (asked_) surplus(name, "a second move");
    if (move_ == nullptr && impl_.handle != nullptr && !layer.is_ready(true)) {
        asked_ = said;
        asked_until_ = Deadline::after(impl_.context->config.connect.timeout / 2);
        impl_.lane->pending().add(impl_.member);
        return;
    }
    if (move_ == nullptr) take_part();
    if (move_ == nullptr) return;  // refused, or it will hear a bye
    if (move_->heard) surplus(name, "a second move");
    move_->heard = said;
}

// Refused, where the layer still lends by then.
void Moving::hear_asked() noexcept {
    if (impl_.handle != nullptr && !impl_.has_ended() && !layer.is_ready(true) &&
        !asked_until_.passed())
        return;
    const std::optional<Hello> said = std::exchange(asked_, std::nullopt);
    if (impl_.has_ended()) return;
    take_part();
    if (move_ != nullptr) move_->heard = said;
}

void Moving::hear_ready() {
    if (move_ == nullptr || !move_->is_said() || !move_->heard || move_->is_peer_ready)
        surplus(impl_.channel.name(), "a ready");
    move_->is_peer_ready = true;
    finish();
}

void Moving::hear_refusal(const Frame& frame) {
    if (move_ == nullptr || move_->state != State::offered || move_->heard)
        surplus(impl_.channel.name(), "a refusal");
    const Refusal refusal = parse_refusal(frame.body);
    impl_.endpoint->stay();
    resume(refusal.code, "the peer refused the move: \"" + refusal.text + "\"");
}

// The peer asks. It hears why, where this side cannot; then nothing has changed.
void Moving::take_part() {
    if (impl_.handle == nullptr) return;  // it closes
    try {
        if (impl_.grants.lends())
            throw Error(Errc::unsupported, impl_.channel.name(), "a grant has not ended here",
                        "move when it has");
        begin(make(impl_.lane, Reservation(impl_.lane->queue(), impl_.context->config)), nullptr);
    } catch (const Error& error) {
        impl_.channel.say(FrameType::refused,
                          encode_refusal({error.code(), error.cause() + "; " + error.remedy()}));
    }
}

// ---- what this side does ----

NextQueuePair Moving::make(std::shared_ptr<Lane::Impl> lane, Reservation reservation) const {
    InboxPlace place(lane);
    NextQueuePair next{std::move(lane), std::move(reservation), std::move(place)};
    if (next.lane != impl_.lane)
        next.note = std::make_unique<NotePool::Note>(next.lane->resources().notes);
    next.handle = impl_.endpoint->make_queue_pair(next.reservation, impl_.channel.local_address());
    return next;
}

void Moving::begin(NextQueuePair next, std::shared_ptr<MoveOutcome> outcome) {
    move_ = std::make_unique<Move>(std::move(next),
                                   Deadline::after(impl_.context->config.connect.timeout));
    move_->outcome = std::move(outcome);
    impl_.endpoint->close_remote();  // else nothing that was posted since retires
    impl_.member.path().room().set_paused(true);
    impl_.lane->polled().add(impl_.member);
    impl_.lane->pending().add(impl_.member);
}

void Moving::go_on() noexcept {
    if (asked_) hear_asked();
    if (move_ == nullptr) return;
    if (impl_.has_ended() && move_->state != State::ended)
        end("it ended before it had moved: " + std::string(describe(impl_.why_ended())));
    try {
        step();
    } catch (const std::exception& error) {
        lose(error.what());
    }
}

void Moving::step() {
    Move& move = *move_;
    (void)impl_.member.path().poll();
    // An error that was polled just now is told by the lane's next poll, and ends the move.
    SendPath& path = impl_.member.path();
    if (move.state == State::draining && path.drain() && path.error() == Errc::ok) say_move();
    if (move.state == State::offered && move.heard) connect();
    if (move.state == State::connecting && move.thread_is_over()) {
        move.connecting.get();
        move.state = State::connected;
    }
    if (move.state == State::connected && move.outcome == nullptr) {
        impl_.endpoint->drop_queue_pair();
        impl_.lane->polled().leave(impl_.member);  // it may be noted
        use_next();
        impl_.lane->polled().add(impl_.member);
    }
    if (finish()) return;
    if (move.state != State::ended) return move.until.passed() ? expire() : void();
    if (move.thread_is_over()) move_.reset();
}

// Nothing is under way on the queue pair: its peer may end it from now on.
void Moving::say_move() {
    impl_.endpoint->part();
    move_->state = State::offered;
    const NextQueuePair& next = move_->next;
    impl_.channel.say(FrameType::move, encode_hello(impl_.endpoint->hello_of(
                                           *next.handle, next.lane->mode(), next.note.get())));
}

// In a thread: it may wait for the peer's, and polls may not wait.
void Moving::connect() {
    move_->state = State::connecting;
    // All of them wait for the thread before they go.
    move_->connecting = std::async(std::launch::async, [move = move_.get(), lane = impl_.lane.get(),
                                                        endpoint = impl_.endpoint.get()] {
        const Returning told{*move, *lane};
        move->next.handle->connect(move->heard->queue_pair, milliseconds_until(move->until.when));
        endpoint->check_order(*move->next.handle);
    });
}

void Moving::use_next() {
    NextQueuePair& next = move_->next;
    impl_.endpoint->replace({std::move(next.reservation), std::move(next.handle), *next.lane,
                             *move_->heard, std::move(next.note)});
    // Grants of the queue pair before have ended, whether or not a notice told of them.
    impl_.one_sided.prepared().end_all();
    move_->state = State::joined;
    impl_.channel.say(FrameType::ready, {});
}

bool Moving::may_leave() noexcept {
    if (move_ == nullptr || move_->state != State::connected) return false;
    return impl_.sending.sender == nullptr || impl_.sending.sender->park();
}

std::shared_ptr<void> Moving::leave() noexcept {
    impl_.endpoint->drop_queue_pair();
    impl_.lane->leave(impl_.member, impl_.channel.socket().get(), true);
    return impl_.lane->kept().release_hosted(impl_.handle);
}

void Moving::join(std::shared_ptr<void> hosted) noexcept {
    const std::shared_ptr<Lane::Impl> lane = impl_.lane = move_->next.lane;
    impl_.dispatcher.move_to(*lane);
    impl_.grants.move_to(*lane);
    if (ClientSession* const client = impl_.told.client.session()) client->moved_to(lane);
    lane->pending().add(impl_.member);
    try {
        if (hosted != nullptr) lane->kept().host(std::move(hosted));
        if (move_->next.note != nullptr) lane->polled().reserve(*move_->next.note);
        use_next();
        lane->join(impl_.member, impl_.channel.socket().get());
    } catch (const std::exception& error) {
        lose(error.what());
    }
    if (impl_.sending.sender != nullptr) impl_.sending.sender->unpark(&move_->next.place);
    finish();
}

// ---- how it ends ----

// As soon as both are ready: the peer's next move may follow its ready at once. False: not yet.
bool Moving::finish() noexcept {
    if (move_->state != State::joined || !move_->is_peer_ready) return false;
    resume(Errc::ok, {});
    return true;
}

// The connection goes on: it has moved, or (not ok) stays as it was.
void Moving::resume(Errc code, std::string text) noexcept {
    const std::unique_ptr<Move> over = std::move(move_);
    impl_.member.path().room().set_paused(false);
    impl_.member.tell_again();
    if (over->outcome != nullptr) over->outcome->tell(code, std::move(text));
}

void Moving::give_up() noexcept {
    if (move_ == nullptr || move_->outcome == nullptr || move_->state == State::joined ||
        move_->state == State::ended)
        return;
    if (move_->state == State::draining && !move_->heard)
        return resume(Errc::peer_lost, "a handler ended it during the call");
    lose("a handler ended it during the move");
}

void Moving::expire() noexcept {
    if (move_->state == State::draining && !move_->heard && move_->outcome != nullptr)
        return resume(Errc::timeout, "what was sent before has not been done in time");
    lose("the peer did not act in time");
}

void Moving::lose(const std::string& cause) noexcept {
    log::warn("{}: lost while moving: {}", impl_.channel.name(), cause);
    end(cause);
    impl_.channel.finish();  // the peer need not wait for its deadline
    (void)impl_.fail(Errc::peer_lost);
}

// The path stays paused: its queue pair may be gone.
void Moving::end(const std::string& cause) noexcept {
    move_->state = State::ended;
    if (move_->outcome != nullptr) move_->outcome->tell(Errc::peer_lost, cause);
    const bool has_left = impl_.lane == move_->next.lane;
    if (impl_.sending.sender != nullptr)
        impl_.sending.sender->unpark(has_left ? &move_->next.place : nullptr);
}

void Moving::check(const Lane& lane, bool with_grants) const {
    const std::string object = "connection to " + impl_.channel.name();
    check_lane(*impl_.context, lane);
    if (impl_.lane->in_handler() || impl_.uses_ != 1)
        throw Error(Errc::would_deadlock, object, "another call of it, or a handler, is under way",
                    "move it from a loop of your own, or by Lane::call()");
    impl_.check();
    if (impl_.has_ended()) throw Error(impl_.why_ended(), object, "it has ended", "connect again");
    if (with_grants && impl_.grants.lends())
        throw Error(Errc::invalid_argument, object, "a grant has not ended",
                    "move before it begins, or when it has ended; a graph on its way has one, too");
    if ((impl_.endpoint->peer().features & Hello::kMoves) == 0)
        throw Error(Errc::unsupported, object, "the peer's version cannot move",
                    "run the same version of Verbatim on both sides");
}

}  // namespace verbatim

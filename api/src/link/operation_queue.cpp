#include "operation_queue.hpp"

#include <algorithm>

#include <verbatim/core/config.hpp>
#include <verbatim/core/layers/layer_requests.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "object_link.hpp"

namespace verbatim::objects {
namespace {

// Looks between two looks at the clock.
constexpr unsigned kLooksPerClock = 8;
// News that come while others are dealt with, before the lane has its turn.
constexpr int kMostRounds = 16;

Error out_of_memory_error() {
    return Error(Errc::out_of_memory, "operation on a graph", "no memory was left for it",
                 "free memory, and repeat it");
}

// Null: no std::exception.
Error thrown_by_program(const char* what) {
    return Error(Errc::corrupt_message, "graph",
                 std::string("a function of the program threw ") +
                     (what != nullptr ? what : "what is no std::exception"),
                 "comparators, hash functions and validators must not throw");
}

}  // namespace

Error error_of_step() {
    try {
        throw;
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return out_of_memory_error();
    } catch (const std::exception& other) {
        return thrown_by_program(other.what());
    } catch (...) {
        return thrown_by_program(nullptr);
    }
}

void refuse_take() {
    throw Error(Errc::invalid_argument, "received graph", "it has not come yet, or was taken",
                "take it once, when the operation is over");
}

void OperationList::add(DrivenOperation& operation) noexcept {
    operation.list_ = this;
    operation.next_ = nullptr;
    operation.before_ = last_;
    (last_ == nullptr ? first_ : last_->next_) = &operation;
    last_ = &operation;
    ++size_;
}

void OperationList::remove(DrivenOperation& operation) noexcept {
    (operation.before_ == nullptr ? first_ : operation.before_->next_) = operation.next_;
    (operation.next_ == nullptr ? last_ : operation.next_->before_) = operation.before_;
    operation.list_ = nullptr;
    --size_;
}

OperationQueue::OperationQueue(ObjectLink& link)
    : link_(link), looking_(OneSided(*link.connection()), Look{this}) {}

// Offered by polls of the lane while something is left to be done.
Errc OperationQueue::Look::operator()() const noexcept {
    if (!queue->is_driving_) queue->look();
    return queue->needs_looks() ? Errc::would_block : Errc::ok;
}

void OperationQueue::begin_send(DrivenOperation& send) noexcept {
    with_deadline_ += send.has_deadline();
    sends_.add(send);
    drive();
}

void OperationQueue::begin_receive(DrivenOperation& receive) noexcept {
    with_deadline_ += receive.has_deadline();
    receives_.add(receive);
    drive();
}

void OperationQueue::forget(DrivenOperation& operation) noexcept {
    if (next_ == &operation) next_ = operation.next_;
    if (operation.list_ != nullptr) operation.list_->remove(operation);
    if (operation.is_over_) return;
    with_deadline_ -= operation.has_deadline();
    receiving_ -= operation.inbound_ != nullptr && operation.stage_ == Stage::under_way;
}

bool OperationQueue::is_idle() const noexcept {
    return sends_.empty() && posted_.empty() && landing_.empty() && receives_.empty() &&
           ending_.empty();
}

// No message of the peer may tell of what they wait for: one that is held has come already.
bool OperationQueue::needs_looks() const noexcept {
    return link_.connection() != nullptr &&
           (again_ || !sends_.empty() || !posted_.empty() || !landing_.empty() ||
            !ending_.empty() || receiving_ != 0 || with_deadline_ != 0 || link_.must_settle() ||
            (!receives_.empty() && link_.incoming().is_starved()));
}

void OperationQueue::look() noexcept {
    take_in();
    drive();
}

void OperationQueue::take_in() noexcept try { link_.take_in(); } catch (const Error& error) {
    fail_all(error);
} catch (const std::exception&) {
    fail_all(out_of_memory_error());
}

void OperationQueue::drive() noexcept {
    if (is_driving_) {
        again_ = true;
        return;
    }
    if (is_idle() && !needs_looks()) return;
    const LinkUse alive(link_);  // the last operation and the connection may go
    is_driving_ = true;
    int rounds = 0;
    do {
        again_ = false;
        end_failed();
        retire();
        land();
        send();
        receive();
    } while (again_ && ++rounds < kMostRounds);
    watch_time();
    if (needs_looks()) looking_.begin();
    is_driving_ = false;
}

OperationQueue::Stage OperationQueue::step(DrivenOperation& operation) noexcept try {
    const Stage before = operation.stage_;
    const Stage stage = operation.step_(operation, DrivenOperation::Order::go_on);
    operation.stage_ = stage;
    if (operation.inbound_ != nullptr && stage != before) {
        receiving_ += stage == Stage::under_way;
        receiving_ -= before == Stage::under_way;
    }
    return stage;
} catch (...) {
    fail(operation, error_of_step());
    return Stage::queued;
}

void OperationQueue::send() noexcept {
    for (int left = kMostSteps; !sends_.empty() && posted_.size() < kMostPosted; --left) {
        if (left == 0) {
            again_ = true;
            return;
        }
        DrivenOperation& next = *sends_.first();
        const Stage stage = step(next);
        if (sends_.first() != &next) continue;  // it has failed
        if (stage < Stage::reusable) return;
        sends_.remove(next);
        set_sent(next);
    }
}

// The graph may change.
void OperationQueue::set_sent(DrivenOperation& operation) noexcept {
    if (Connection* const connection = link_.connection())
        operation.last_request_ = LayerRequests::last(*connection);
    if (operation.stage_ == Stage::reusable)
        posted_.add(operation);
    else if (operation.until_ == Until::delivered)
        landing_.add(operation);
    if (operation.until_ == Until::reusable) finish(operation);
}

void OperationQueue::retire() noexcept {
    for (DrivenOperation* at = posted_.first(); at != nullptr; at = next_) {
        next_ = OperationList::after(*at);
        if (step(*at) != Stage::sent || at->list_ != &posted_) continue;
        posted_.remove(*at);
        if (at->until_ == Until::delivered) landing_.add(*at);
    }
}

// Only now the receiver can be told, and goes on with the graphs behind it.
void OperationQueue::end_failed() noexcept {
    for (DrivenOperation* at = ending_.first(); at != nullptr; at = next_) {
        next_ = OperationList::after(*at);
        if (at->step_(*at, DrivenOperation::Order::drop) == Stage::sent) ending_.remove(*at);
    }
}

// Requests retire in order.
void OperationQueue::land() noexcept {
    while (!landing_.empty()) {
        DrivenOperation& first = *landing_.first();
        if (first.has_landed()) {
            landing_.remove(first);
            finish(first);
        } else if (link_.connection() == nullptr) {
            fail(first, link_.end_error());
        } else {
            return;
        }
    }
}

void OperationQueue::receive() noexcept {
    const bool is_alive = link_.connection() != nullptr;
    for (DrivenOperation* at = receives_.first(); at != nullptr; at = next_) {
        if (is_alive && !link_.incoming().arrivals().have_news()) return;
        next_ = OperationList::after(*at);
        if (is_alive && !at->inbound_->has_news()) continue;
        if (step(*at) != Stage::received) continue;
        receives_.remove(*at);
        finish(*at);
    }
}

void OperationQueue::finish(DrivenOperation& operation) noexcept {
    operation.is_over_ = true;
    with_deadline_ -= operation.has_deadline();
    if (operation.tell_ != nullptr) operation.tell_(operation);
}

void OperationQueue::fail(DrivenOperation& operation, const Error& error) noexcept {
    if (next_ == &operation) next_ = operation.next_;
    operation.list_->remove(operation);
    const Stage left = operation.step_(operation, DrivenOperation::Order::drop);
    if (operation.inbound_ == nullptr && left != Stage::sent) ending_.add(operation);
    if (operation.is_over_) return;  // its graph was free already
    receiving_ -= operation.inbound_ != nullptr && operation.stage_ == Stage::under_way;
    operation.error_ = std::make_unique<Error>(error);
    finish(operation);
}

void OperationQueue::fail_all(const Error& error) noexcept {
    const LinkUse alive(link_);
    for (OperationList* list : {&sends_, &posted_, &landing_, &receives_})
        while (!list->empty()) fail(*list->first(), error);
}

Clock::time_point OperationQueue::next_deadline() const noexcept {
    const bool is_stallable =
        receiving_ != 0 || (!sends_.empty() && sends_.first()->stage_ == Stage::under_way);
    auto next = is_stallable ? stalled_.when : Deadline::never().when;
    for (const OperationList* list : {&sends_, &landing_, &receives_})
        for (DrivenOperation* at = list->first(); at != nullptr; at = OperationList::after(*at))
            next = std::min(next, at->deadline_.when);
    return next;
}

// Deadlines, and peers that stop in the middle.
void OperationQueue::watch_time() noexcept {
    if (looks_++ % kLooksPerClock != 0 || is_idle()) return;
    const auto now = Clock::now();
    const std::uint64_t activity = link_.activity();
    Connection* const connection = link_.connection();
    if (connection != nullptr && std::exchange(activity_, activity) != activity)
        stalled_ = Deadline::after(connection->config().objects.timeout);
    const bool is_stalled = now >= stalled_.when;
    if (with_deadline_ == 0 && !is_stalled) return;
    for (OperationList* list : {&sends_, &posted_, &landing_, &receives_})
        expire(*list, now, is_stalled);
    // The next one that takes the graph over has a time of its own.
    if (is_stalled && connection != nullptr)
        stalled_ = Deadline::after(connection->config().objects.timeout);
}

void OperationQueue::expire(OperationList& list, Clock::time_point now, bool stalled) noexcept {
    for (DrivenOperation* at = list.first(); at != nullptr; at = next_) {
        next_ = OperationList::after(*at);
        if (at->is_over_) continue;  // told, and only its writes are under way
        if (now >= at->deadline_.when)
            fail(*at, Error(Errc::timeout, "operation on a graph",
                            "its deadline passed before it was done",
                            "check that the other side calls receive() or send(), or allow more "
                            "time"));
        else if (stalled && at->stage_ == Stage::under_way)
            fail(*at,
                 Error(Errc::timeout, "operation on a graph", "the peer stopped in mid-transfer",
                       "close the connection; objects.timeout sets how long to wait"));
    }
}

// ---- DrivenOperation ----

bool others_send(ObjectLink& link) { return link.operations().has_sends(); }

bool others_receive(ObjectLink& link) { return link.operations().has_receives(); }

DrivenOperation::~DrivenOperation() = default;

void DrivenOperation::leave() noexcept { link_->operations().forget(*this); }

void DrivenOperation::begin_send() noexcept { link_->operations().begin_send(*this); }

void DrivenOperation::begin_receive(const Inbound& inbound) noexcept {
    inbound_ = &inbound;
    link_->operations().begin_receive(*this);
}

bool DrivenOperation::test() noexcept {
    if (is_over_) return true;
    try {
        link_->poll();
    } catch (const Error&) {
        // Messages of the program are in the way; it can receive them.
    }
    link_->operations().look();
    return is_over_;
}

void DrivenOperation::wait() {
    std::uint64_t activity = 0;
    for (unsigned round = 0; !is_over_; ++round) {
        link_->poll();
        link_->operations().look();
        if (is_over_) break;
        if (const std::uint64_t now = link_->activity(); now != activity) {
            activity = now;
            round = 0;
        }
        auto until = link_->operations().next_deadline();
        if (link_->must_settle())
            until = std::min(until, Clock::now() + std::chrono::milliseconds(1));
        link_->here().pause(round, {until});
    }
    check();
}

void DrivenOperation::check() const {
    if (error_ != nullptr) throw Error(*error_);
}

Connection& DrivenOperation::connection() const { return link_->here(); }

bool DrivenOperation::has_landed() noexcept {
    if (stage_ < Stage::reusable) return false;
    return link_->has_landed(last_request_);
}

}  // namespace verbatim::objects

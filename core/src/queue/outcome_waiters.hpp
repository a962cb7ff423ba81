// The outcome waiters of a connection, in the order in which they came. Threads: the lane's. Data
// path.
#pragma once

#include <utility>

#include <verbatim/core/outcome_waiter.hpp>

namespace verbatim {

class OutcomeWaiters {
  public:
    bool empty() const noexcept { return waiting_.first == nullptr; }
    void add(OutcomeWaiter& waiter) noexcept { waiting_.push(waiter); }
    // No effect on one that does not wait.
    void remove(const OutcomeWaiter& waiter) noexcept {
        waiting_.remove(waiter);
        looked_at_.remove(waiter);
    }
    // Tells those whose outcome is known. They may add and remove others meanwhile, and end the
    // connection, which looks once more, inside this look: at those that are left, too.
    void look() noexcept {
        looked_at_.append(std::exchange(waiting_, {}));
        while (OutcomeWaiter* const waiter = looked_at_.pop()) {
            const Errc outcome = waiter->step_(*waiter);
            if (outcome == Errc::would_block)
                waiting_.push(*waiter);
            else
                waiter->tell_(*waiter, outcome);
        }
    }
    // Tells all of them that.
    void fail(Errc outcome) noexcept {
        while (OutcomeWaiter* const waiter = waiting_.pop()) waiter->tell_(*waiter, outcome);
    }

  private:
    struct List {
        OutcomeWaiter *first = nullptr, *last = nullptr;

        void push(OutcomeWaiter& waiter) noexcept {
            waiter.next_ = nullptr;
            (last == nullptr ? first : last->next_) = &waiter;
            last = &waiter;
        }
        void append(List behind) noexcept {
            if (behind.first == nullptr) return;
            (last == nullptr ? first : last->next_) = behind.first;
            last = behind.last;
        }
        OutcomeWaiter* pop() noexcept {
            OutcomeWaiter* const front = first;
            if (front != nullptr) first = front->next_;
            if (first == nullptr) last = nullptr;
            return front;
        }
        void remove(const OutcomeWaiter& waiter) noexcept {
            OutcomeWaiter* before = nullptr;
            for (OutcomeWaiter* at = first; at != nullptr; before = at, at = at->next_) {
                if (at != &waiter) continue;
                (before == nullptr ? first : before->next_) = at->next_;
                if (last == at) last = before;
                return;
            }
        }
    };
    List waiting_, looked_at_;
};

}  // namespace verbatim

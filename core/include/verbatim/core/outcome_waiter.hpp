// An outcome waiter is told of the outcome of one operation: by a callback (WhenDone), or by going
// on with a coroutine (OneSided::async). It is linked into the connection's list while it waits, so
// nothing is allocated. Threads: the lane's.
#pragma once

#include <verbatim/driver/error.hpp>

namespace verbatim {

class OutcomeWaiter {
  public:
    OutcomeWaiter(const OutcomeWaiter&) = delete;
    OutcomeWaiter& operator=(const OutcomeWaiter&) = delete;

  protected:
    // Offers the operation, or looks for its outcome: would_block while there is none.
    using Step = Errc (*)(OutcomeWaiter&) noexcept;
    // Once; it may end the waiter.
    using Tell = void (*)(OutcomeWaiter&, Errc) noexcept;
    OutcomeWaiter(Step step, Tell tell) noexcept : step_(step), tell_(tell) {}
    ~OutcomeWaiter() = default;

  private:
    friend class OutcomeWaiters;
    Step step_;
    Tell tell_;
    OutcomeWaiter* next_ = nullptr;
};

}  // namespace verbatim

// The look at what a thread awaits.
#include "awaited.hpp"

#include <verbatim/driver/deadline.hpp>

namespace verbatim {

WaitList& Awaited::what_wakes(Deadline deadline) {
    static thread_local WaitList list;  // keeps its memory
    list.files.clear();
    list.until = deadline;
    for (const Here* here = innermost_; here != nullptr; here = here->outer_)
        here->one_.add_to(list);
    return list;
}

void Awaited::look(bool sleeps, int descriptor, Deadline deadline) noexcept {
    WaitList& list = what_wakes(deadline);
    if (sleeps) list.add(descriptor);
    const int ready = ::poll(list.files.data(), list.files.size(),
                             sleeps ? milliseconds_until(list.until.when) : 0);
    if (ready == 0 && !list.until.passed()) return;
    for (const Here* here = innermost_; here != nullptr; here = here->outer_) here->one_.go_on();
}

}  // namespace verbatim

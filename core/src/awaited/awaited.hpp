// What a thread awaits beside its lanes: a handshake, callers. It goes on in whichever wait of its
// thread is under way: waits lie inside waits, and the outer ones must not stop for the inner.
// Threads: that of the wait. Control path.
#pragma once

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <verbatim/core/deadline.hpp>

namespace verbatim {

// A wait list is what may end a sleep: descriptors and a time.
struct WaitList {
    std::vector<pollfd> files;
    Deadline until;

    void add(int file, short events = POLLIN) { files.push_back({file, events, 0}); }
    void add(Deadline deadline) noexcept { until.when = std::min(until.when, deadline.when); }
};

class Awaited {
  public:
    // Goes on as far as it can without waiting.
    virtual void go_on() noexcept = 0;
    // What it waits for afterwards.
    virtual void add_to(WaitList& list) const = 0;

    // While it lives, waits of this thread go on with it. One inside the other.
    class Here {
      public:
        explicit Here(Awaited& one) : outer_(std::exchange(innermost_, this)), one_(one) {
            one.go_on();
        }
        ~Here() { innermost_ = outer_; }
        Here(const Here&) = delete;
        Here& operator=(const Here&) = delete;

      private:
        friend Awaited;
        Here* const outer_;
        Awaited& one_;
    };
    // Polls of a waiting thread between two looks at what it awaits: these are system calls, and a
    // poll is none.
    static constexpr unsigned kPollsPerLook = 64;
    // This thread awaits something.
    static bool any() noexcept { return innermost_ != nullptr; }
    // Looks once at all that this thread awaits, and goes on with it. `sleeps`: first until there
    // is something, this descriptor can be read (-1: none), or the deadline.
    static void look(bool sleeps, int descriptor, Deadline deadline) noexcept;

  protected:
    ~Awaited() = default;

  private:
    static WaitList& what_wakes(Deadline deadline);
    static thread_local constinit inline Here* innermost_ = nullptr;
};

}  // namespace verbatim

// A lane drives connections: it owns the completion queue on which their requests finish, and finds
// what arrives for them. A context has one that serves programs which do not ask; others are made
// by Context::make_lane().
//
// Threads: a lane and all its connections are used by one thread at a time. Debug builds check
// that. Different lanes are independent: a program with several threads makes a lane for each.
//
// Ways to run a lane:
// - call poll() in a loop of your own;
// - call anything that blocks (Connection::receive_message), which polls, then sleeps;
// - wait for descriptor() in an epoll loop of your own, as prepare_to_sleep() says.
#pragma once

#include <cstddef>
#include <memory>

#include <verbatim/core/deadline.hpp>

namespace verbatim {

class Lane {
  public:
    struct Impl;
    explicit Lane(std::shared_ptr<Impl> impl) noexcept;
    // Lanes are shared: a copy is the same lane. Connections keep theirs alive.

    // Looks once at completions and at the connections that are polled, and calls handlers. Never
    // blocks. Returns how many things happened; 0: nothing. Inside a handler it does nothing.
    // Data path.
    std::size_t poll() noexcept;
    // Polls until something happened; false: the deadline passed. Spins, then sleeps, as mode of
    // [lane] says. Inside a handler it returns at once.
    bool wait(Deadline deadline = Deadline::never()) noexcept;

    // For loops of your own: readable when poll() may find something, once prepare_to_sleep()
    // returned true. Never read it.
    int descriptor() const noexcept;
    // Asks for a wake-up. False: something happened, or is about to; poll() again first. True: wait
    // for descriptor(), then poll(). One wake-up per call.
    bool prepare_to_sleep() noexcept;

    std::size_t connections() const noexcept;

    const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

  private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace verbatim

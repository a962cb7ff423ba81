// A lane drives connections: it owns the completion queue on which their requests finish, and finds
// what arrives for them. A context has one that serves programs which do not ask; others are made
// by Context::make_lane().
//
// Threads: a lane and all its connections are used by one thread at a time, but for submit() and
// call(). Debug builds check that. Different lanes are independent: a program with several threads
// makes a lane for each.
//
// Ways to run a lane:
// - call poll() in a loop of your own;
// - call anything that blocks (Connection::receive_message), which polls, then sleeps;
// - wait for descriptor() in an epoll loop of your own, as prepare_to_sleep() says.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include <verbatim/core/deadline.hpp>
#include <verbatim/core/inbox_item.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {

class Lane {
  public:
    struct Impl;
    explicit Lane(std::shared_ptr<Impl> impl) noexcept;
    // Lanes are shared: a copy is the same lane. Connections keep theirs alive.

    // Looks once at completions and at the connections that are polled, and calls handlers. Never
    // blocks. Returns how many things happened; 0: nothing. Inside a handler it does nothing.
    // Data path, but for one system call: an epoll_wait that does not wait. Each 64th poll reads
    // the clock, and makes it where 50 us have passed, in every mode: ends of peers are found so.
    // What it finds is read then. Over tcp, udp and dpdk each poll sends and receives, too.
    std::size_t poll() noexcept;
    // Polls until something happened, or may have; false: the deadline passed. Spins, then sleeps,
    // as mode of [lane] says. Inside a handler it returns at once.
    bool wait(Deadline deadline = Deadline::never()) noexcept;

    // For loops of your own: readable when poll() may find something, once prepare_to_sleep()
    // returned true. Never read it.
    int descriptor() const noexcept;
    // Asks for a wake-up. False: something happened, or is about to; poll() again first. True: wait
    // for descriptor(), then poll(). One wake-up per call.
    bool prepare_to_sleep() noexcept;

    // ---- for other threads ----
    // Runs `task()`, which must not throw, in the lane's thread, by its next poll. A task may do
    // what handlers may not: connect, wait, end connections. Any thread. Allocates.
    template <class Task>
    void submit(Task task) {
        push(new InboxTask<Task>(std::move(task)));
    }
    // The same, and waits for its value or exception. In the thread of the poller that drives the
    // lane, in its handlers too, and in tasks of the lane, it is called at once. A task of another
    // poller goes on with the lanes of its own thread while it waits, so that two pollers may wait
    // for each other. Throws Error(would_deadlock):
    // - at once in a handler of another poller, which must not wait;
    // - at once where dozens of tasks of two pollers wait so, one inside the other;
    // - after two seconds in which none took the task, where this thread polled the lane last, or
    //   none did: so in a handler of this lane in a loop of your own.
    // Throws Error(invalid_argument): the lane, or the poller that drove it, ended first.
    template <class Task>
    auto call(Task task) -> std::invoke_result_t<Task&> {
        using Value = std::invoke_result_t<Task&>;
        if (is_mine()) return task();
        Wait wait = begin_wait();
        std::promise<Value> promise;
        std::future<Value> value = promise.get_future();
        const auto has_begun = std::make_shared<std::atomic<bool>>(false);
        submit([&task, has_begun, promise = std::move(promise),
                teller = std::move(wait.teller)]() mutable noexcept {
            if (has_begun->exchange(true)) return;  // the call has ended
            try {
                if constexpr (std::is_void_v<Value>)
                    task(), promise.set_value();
                else
                    promise.set_value(task());
            } catch (...) {
                promise.set_exception(std::current_exception());
            }
        });
        check_taken(*has_begun);
        go_on_until(wait);
        try {
            return value.get();
        } catch (const std::future_error&) {
            throw Error(Errc::invalid_argument, "lane", "it ended before it took a task",
                        "keep the context and its pollers until all calls have returned");
        }
    }

    std::size_t connections() const noexcept;

    const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

  private:
    void push(InboxItem* task);
    // This thread is that of the poller which drives the lane, or inside one of its tasks.
    bool is_mine() const noexcept;
    // Throws Error, and keeps the task from beginning, where no thread will take it.
    void check_taken(std::atomic<bool>& has_begun) const;
    // A wait in a thread that drives lanes itself: a poller's. In others it is empty.
    struct Wait {
        std::shared_ptr<void> answer, teller;
        std::shared_ptr<void> stuck;  // instead: its end says that this thread takes tasks again
    };
    // Throws Error(would_deadlock) in a handler.
    Wait begin_wait() const;
    Wait begin_stuck_wait() const;
    // Drives the lanes of this thread until the last copy of the teller has gone.
    static void go_on_until(const Wait& wait) noexcept;

    std::shared_ptr<Impl> impl_;
};

}  // namespace verbatim

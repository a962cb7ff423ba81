// A completion channel: the descriptor from which a program reads that a completion queue has
// something for it. It is one end of a socket, so read(), poll() and O_NONBLOCK are the system's.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "../softnic/descriptor.hpp"

namespace verbatim::uverbs {

class EventChannel {
  public:
    // Throws Error(device_error) if there are no descriptors left.
    EventChannel();

    // What the program gets and closes.
    int programs_end() const noexcept { return programs_end_; }

    // One event of the queue that the program calls `queue`, counted in `sent`. False: there is no
    // room for it now.
    bool post(std::uint64_t queue, std::atomic<std::uint32_t>& sent) noexcept;
    // Takes back what the program has not read yet of this queue's events; returns how many.
    std::uint32_t withdraw(std::uint64_t queue);
    // A thread that has armed a queue polls it before it sleeps, and programs that take one
    // completion for each event count on it that what they then find has no event. So events are
    // held until it has polled, or sleeps.
    void note_arming() noexcept;
    void note_poll() noexcept {
        if (armer_.load(std::memory_order_relaxed) != 0) armer_.store(0, std::memory_order_release);
    }
    // `ask`: the system, whether the thread sleeps; else it is taken to be awake.
    bool held(bool ask) const noexcept;
    // The program has closed its end.
    bool closed() const noexcept;

  private:
    std::atomic<int> armer_{0};              // the thread that has armed and not polled; 0: none
    std::atomic<std::int64_t> armed_at_{0};  // ns of the steady clock
    std::mutex mutex_;
    softnic::Descriptor ours_;
    int programs_end_ = -1;
    std::uint64_t inode_ = 0;  // of the program's end: whether its number still means that
};

}  // namespace verbatim::uverbs

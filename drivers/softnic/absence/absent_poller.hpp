// The absent poller is a thread of a device that executes requests, and takes messages, in the
// place of programs which neither post nor poll for a while (they compute, or sleep). A card would
// go on by itself. It sleeps without a limit while its list is empty. It is a thread of its own,
// beside the control thread, because a turn may ask the peer's control thread for a memory file,
// which could ask this one's.
//
// A queue pair enters the list when it leaves something that only the peer's responder, or another
// turn, can bring on. Entering costs a lock, and one system call if the thread sleeps for long. The
// first look comes a millisecond later, the next ones at growing distances. A look at a queue pair
// whose requests went on meanwhile does nothing. Else it runs a turn, unless the program polls; if
// requests wait still, the peer's device is asked to look at its queue pair. The peer is asked
// again only when it has read most of what it was told before.
//
// Devices with an engine thread need no such thread. In a forked child there is none. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "../host/descriptor.hpp"

namespace verbatim::softnic {

class Absence;

class AbsentPoller {
  public:
    // What a look at a queue pair found: nothing that waits; what waits; what had gone on by
    // itself; what went on by this look.
    enum class Found : std::uint8_t { nothing, waiting, moving, effect };

    // Starts the thread. Throws Error(device_error).
    AbsentPoller();
    ~AbsentPoller();
    AbsentPoller(const AbsentPoller&) = delete;
    AbsentPoller& operator=(const AbsentPoller&) = delete;

    void open(Absence& one) noexcept;
    // After it no look at `one` goes on or comes. Not from the thread of the poller.
    void close(Absence& one) noexcept;
    // `asked`: by the peer.
    void enter(Absence& one, bool asked) noexcept;

  private:
    static void* entry(void* self);
    void run() noexcept;
    void wake() noexcept;
    // Sleeps; true: it was woken from a long sleep.
    bool sleep() noexcept;
    bool lie_down() noexcept;
    bool anyone_asked() noexcept;
    void look_at_all() noexcept;
    Found look_at(Absence& one, std::unique_lock<std::mutex>& lock) noexcept;
    void set_pace(Found best, bool empty) noexcept;
    void add(Absence& one) noexcept;
    void drop(Absence& one) noexcept;
    void remove(Absence& one) noexcept;
    void rotate() noexcept;

    Descriptor wake_;
    const std::uint64_t generation_;
    pthread_t thread_{};
    std::atomic<bool> stop_{false};
    // Of the thread alone.
    int pace_ms_ = 0;               // -1: for ever
    std::uint32_t vain_looks_ = 0;  // in a row

    std::mutex mutex_;  // guards what follows
    std::condition_variable looked_;
    Absence *first_ = nullptr, *last_ = nullptr, *current_ = nullptr;
    bool attentive_ = false;  // it looks soon, without being woken
};

}  // namespace verbatim::softnic

// The threads that the library runs in a program's process: which they are, so that the program's
// own can be counted, and a moment in which none of them touches any memory, so that memory can be
// exchanged under the program's feet. Threads: any.
#pragma once

#include <pthread.h>

#include <chrono>

namespace verbatim::softnic {

// Whether a thread takes the signals that say of registered memory that it is gone. No signal of
// the program is ever handled on one of ours.
enum class Faults : bool { blocked, taken };

// Starts one; `entry` is to begin with an OwnThread. 0, or what pthread_create() said.
int start_own_thread(pthread_t& thread, void* (*entry)(void*), void* self, Faults faults) noexcept;

// For the life of such a thread.
class OwnThread {
  public:
    OwnThread() noexcept;
    ~OwnThread();
    OwnThread(const OwnThread&) = delete;
    OwnThread& operator=(const OwnThread&) = delete;
};

// Around a system call in which one of our threads waits and writes nothing that another may not
// lose: it takes no locks in there, and goes on only when nobody stands still. Other threads:
// nothing.
class AtRest {
  public:
    AtRest() noexcept;
    ~AtRest();
    AtRest(const AtRest&) = delete;
    AtRest& operator=(const AtRest&) = delete;
};

// As long as it lives all our threads are at rest, if they came to it in time. One at a time.
class Standstill {
  public:
    explicit Standstill(std::chrono::milliseconds patience) noexcept;
    ~Standstill();
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;

    bool reached() const noexcept { return reached_; }
    // The program has no thread but the calling one. False too if that cannot be known.
    bool alone() const noexcept;

  private:
    bool reached_ = false;
};

}  // namespace verbatim::softnic

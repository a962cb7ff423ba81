// A thread that waits for sockets and deadlines, because peers write whether the program listens or
// not. Started when there is something to wait for; all signals are blocked in it. Threads: any.
#pragma once

#include <cstdint>

#include "../softnic/host/descriptor.hpp"

namespace verbatim::rdmacm {

// Called from the thread.
class WatcherService {
  public:
    // What is due is done; how long until the next deadline, or -1.
    virtual int meet_deadlines() = 0;
    // A socket can be read, or has ended. False: there are no descriptors left to go on.
    virtual bool serve(std::uint64_t key) = 0;

  protected:
    ~WatcherService() = default;
};

// Lives as long as the process: nobody stops the thread.
class Watcher {
  public:
    // Throws Error(device_error).
    explicit Watcher(WatcherService& service);
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    // Called again: nothing. Throws Error(device_error).
    void start();
    // 0 or an errno.
    int add(const softnic::Descriptor& socket, std::uint64_t key) noexcept;
    // From now on it is served under another key.
    void rename(const softnic::Descriptor& socket, std::uint64_t key) noexcept;
    // Closes the socket. What it had to say may be served once more.
    void remove(softnic::Descriptor& socket) noexcept;
    // There is an earlier deadline.
    void wake() noexcept;

  private:
    static void* entry(void* self);
    [[noreturn]] void run();

    WatcherService& service_;
    softnic::Descriptor epoll_, bell_;
    bool started_ = false;
};

}  // namespace verbatim::rdmacm

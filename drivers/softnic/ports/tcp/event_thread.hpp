// The engine thread of the tcp port: asleep in epoll, it does the work of pollers that are absent.
// It starts with the first descriptor to watch. Handlers run one after the other, under its lock.
// Threads: any, but not from a handler.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "../../host/descriptor.hpp"

namespace verbatim::softnic {

class EventThread {
  public:
    class Handler {
      public:
        // A descriptor is ready; or a tick, kTick or a little more after the last one. True: it is
        // to tick (still).
        virtual bool ready() noexcept = 0;
        virtual bool tick() noexcept = 0;
        // About once a second, of those that were added so.
        virtual void beat() noexcept {}
        // Any thread: it is to tick, whatever it returned.
        virtual bool wants_ticks() const noexcept { return false; }

      protected:
        ~Handler() = default;
    };
    static constexpr int kTickMs = 2, kBeatMs = 1000;

    EventThread() = default;
    ~EventThread();
    EventThread(const EventThread&) = delete;
    EventThread& operator=(const EventThread&) = delete;

    // The handler ticks from now on. Returns its number. Throws Error(device_error).
    std::uint64_t add(Handler& handler, bool beats = false);
    // Afterwards the handler is not called any more. Its descriptors are still open.
    void remove(std::uint64_t handler) noexcept;
    // The descriptor's readiness is the handler's: once for each call of watch_again(), or until
    // forget().
    void watch(int fd, std::uint64_t handler, bool once);
    void forget(int fd) noexcept;
    // A handler may want ticks. A system call if none ticks; any thread, handlers too.
    void call() noexcept {
        if (!ticking_.exchange(true)) wake();
    }
    // One system call; any thread, handlers too.
    void watch_again(int fd, std::uint64_t handler, bool writable) noexcept;

  private:
    struct Entry {
        Handler* handler;
        bool ticks;
        bool beats;
    };
    void tick_all() noexcept;
    void beat_all() noexcept;
    static void* entry(void* self);
    void start();
    void run();
    void wait() noexcept;
    void wake() noexcept;
    void serve() noexcept;

    const std::uint64_t generation_ = fork_generation();
    std::atomic<bool> stop_{false};
    Descriptor epoll_, wake_;
    pthread_t thread_{};
    std::vector<std::uint64_t> ready_;                             // of the thread alone
    std::chrono::steady_clock::time_point next_tick_, next_beat_;  // likewise
    std::atomic<bool> ticking_{false}, beating_{false};            // a handler does

    std::mutex mutex_;  // guards what follows
    bool started_ = false;
    std::uint64_t last_ = 0;
    std::map<std::uint64_t, Entry> handlers_;
};

}  // namespace verbatim::softnic

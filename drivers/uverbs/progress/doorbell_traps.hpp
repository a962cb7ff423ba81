// Notices doorbells of programs that write their requests and ring past libibverbs: while nobody
// looks for requests, the register pages are write-protected by a userfaultfd, and a store into one
// stops its thread until a thread here has lifted the traps and is about to look. Works without
// privileges since Linux 5.19, unless a container forbids the system call. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../../softnic/host/descriptor.hpp"

namespace verbatim::uverbs {

class DoorbellTraps {
  public:
    // Called by the traps' thread: after a store was trapped, with the traps lifted; and from time
    // to time while it watches, until that returns false.
    struct Hooks {
        void (*trapped)(void* context) noexcept = nullptr;
        bool (*watch)(void* context) noexcept = nullptr;
        void* context = nullptr;
    };
    explicit DoorbellTraps(const Hooks& hooks) noexcept : hooks_(hooks) {}
    // Threads that wait in a trap go on. Nobody sets traps any more.
    ~DoorbellTraps();
    DoorbellTraps(const DoorbellTraps&) = delete;
    DoorbellTraps& operator=(const DoorbellTraps&) = delete;

    // The program has mapped register pages here, which it unmaps when it likes. Those that are
    // known already may be among them.
    void add(std::uintptr_t start, std::size_t bytes) noexcept;
    // There may be register pages that nobody knows of.
    void forgo(const std::string& why) noexcept;
    // Whether all register pages can be trapped that the program has mapped.
    bool work() const noexcept { return work_.load(std::memory_order_acquire); }
    // Whether a store may be trapped.
    bool are_set() const noexcept { return set_.load(std::memory_order_relaxed); }
    // Afterwards stores are trapped that were not preceded by this call. False: they cannot be.
    bool set() noexcept;
    void lift() noexcept;
    // Called again: nothing.
    void watch() noexcept;

  private:
    struct Range {
        std::uintptr_t start;
        std::size_t bytes;
    };

    bool open() noexcept;
    bool start() noexcept;
    void give_up(const std::string& why) noexcept;
    bool protect(const Range& range, bool wanted) noexcept;
    bool protect_all(bool wanted) noexcept;
    static void* entry(void* self);
    void run() noexcept;
    bool read_traps() noexcept;
    void set_timer(std::chrono::nanoseconds period) noexcept;
    void wake(std::uintptr_t address) noexcept;

    const Hooks hooks_;
    std::atomic<bool> work_{false}, set_{false}, watches_{false}, stop_{false};
    std::mutex mutex_;  // guards what follows; never held while anything else is waited for
    bool impossible_ = false;
    softnic::Descriptor faults_, bell_, timer_;
    std::vector<Range> ranges_;
    std::optional<pthread_t> thread_;
    const std::uint64_t generation_ = softnic::fork_generation();
};

}  // namespace verbatim::uverbs

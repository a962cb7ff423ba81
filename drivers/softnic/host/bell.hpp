// How a process wakes the engine thread of another one, which sleeps while there is nothing to do:
// one word in memory that the peers of a device map, and a futex on it. Who has work for a device
// that does not sleep pays one load.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>

#include "shared_memory.hpp"

namespace verbatim::softnic {

class Bell {
  public:
    static constexpr std::size_t kBytes = 4096;

    Bell() = default;
    explicit Bell(std::shared_ptr<SharedMemory> memory) noexcept : memory_(std::move(memory)) {}
    explicit operator bool() const noexcept { return memory_ != nullptr; }
    int file() const noexcept { return memory_->file(); }

    // Wakes the sleeper if there is one. After the work was stored. Any thread of any process.
    void ring() const noexcept {
        // Either the sleeper sees the work, or this load sees the sleeper.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (word().load(std::memory_order_relaxed) != kAsleep) return;
        if (word().exchange(kAwake) == kAsleep) futex(FUTEX_WAKE, 1, nullptr);
    }

    // The sleeper: announces that it will sleep; looks for work once more; sleeps.
    void lie_down() const noexcept { word().store(kAsleep); }
    // kForEver: until somebody rings.
    static constexpr std::chrono::nanoseconds kForEver = std::chrono::nanoseconds::max();
    void sleep(std::chrono::nanoseconds at_most) const noexcept {
        const timespec time{static_cast<time_t>(at_most.count() / 1000000000),
                            static_cast<long>(at_most.count() % 1000000000)};
        futex(FUTEX_WAIT, kAsleep, at_most == kForEver ? nullptr : &time);
        get_up();
    }
    void get_up() const noexcept { word().store(kAwake, std::memory_order_relaxed); }

  private:
    static constexpr std::uint32_t kAwake = 0, kAsleep = 1;
    std::atomic<std::uint32_t>& word() const noexcept {
        return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_->data());
    }
    void futex(int operation, std::uint32_t value, const timespec* time) const noexcept {
        syscall(SYS_futex, memory_->data(), operation, value, time, nullptr, 0);
    }

    std::shared_ptr<SharedMemory> memory_;
};

}  // namespace verbatim::softnic

// A quarantine keeps memory that was lent to peers of failed queue pairs, until the device says
// that nothing of these peers can land there any more. Only a process that is stopped in the middle
// of a copy keeps it long. Threads: any. Control path.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include <verbatim/core/deadline.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

class Quarantine {
  public:
    struct Lot {
        std::shared_ptr<void> held;  // let go when the barrier has passed
        std::size_t bytes = 0;
        std::unique_ptr<RevocationBarrier> barrier = nullptr;  // made by the quarantine
        Clock::time_point since{};
        bool is_told = false;
    };

    // `most`: bytes from which on no more may be lent.
    Quarantine(Device& device, std::size_t most) noexcept : device_(device), most_(most) {}
    Quarantine(const Quarantine&) = delete;
    Quarantine& operator=(const Quarantine&) = delete;

    // `lot`: one element, so that nothing is allocated. Its queue pair has failed, or has gone. No
    // owner ends in this call.
    void put(std::list<Lot>&& lot) noexcept;
    // Lets go what is free. Owners end in this thread. No barrier is waited for.
    void sweep() noexcept {
        if (count_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            sweep_all();
    }
    bool is_empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
    std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    bool is_full() const noexcept { return bytes() > most_; }

  private:
    void sweep_all() noexcept;
    bool has_passed(Lot& lot) noexcept;

    Device& device_;
    const std::size_t most_;
    std::atomic<std::size_t> count_{0}, bytes_{0};
    std::mutex mutex_;
    std::list<Lot> lots_;
};

}  // namespace verbatim

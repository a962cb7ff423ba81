// A completion queue that several queue pairs of a lane share, and how many of its entries they
// have taken: one for every send block and receive, because errors flush all. Threads: the lane's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>

#include "queue_user.hpp"

namespace verbatim {

class SharedCompletions {
  public:
    // `channel` outlives it. Throws what the device throws.
    SharedCompletions(Device& device, std::uint32_t entries, CompletionChannelHandle& channel)
        : handle_(device.create_completion_queue(entries, &channel)),
          completions_(handle_->view()) {}

    // For queue pairs whose entries were taken.
    CompletionQueueHandle& handle() noexcept { return *handle_; }
    std::uint32_t number() const noexcept { return completions_.number(); }
    std::uint32_t entries() const noexcept { return completions_.entries(); }
    std::uint64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

    // False: so many are not free.
    bool take(std::uint32_t entries) noexcept {
        if (taken() + entries > completions_.entries()) return false;
        taken_.fetch_add(entries, std::memory_order_relaxed);
        return true;
    }
    // Their queue pair is gone. Any thread.
    void give_back(std::uint32_t entries) noexcept {
        taken_.fetch_sub(entries, std::memory_order_relaxed);
    }
    // Throws what the device throws; unsupported: its queues keep their length.
    void lengthen(std::uint32_t entries) { completions_.resize(*handle_, entries); }

    // Allocates.
    void attach(QueueUser& user) { completions_.attach(&user.send(), &user.receive()); }
    void detach(const QueueUser& user) noexcept { completions_.detach(user.number()); }

    // Data path.
    std::size_t poll(std::span<mlx5::Completion> finished) noexcept {
        return completions_.poll(finished);
    }
    bool arm() noexcept { return completions_.arm() == Errc::ok; }
    void count_event() noexcept { completions_.count_event(); }

  private:
    std::unique_ptr<CompletionQueueHandle> handle_;
    mlx5::CompletionQueue completions_;
    std::atomic<std::uint64_t> taken_{0};
};

}  // namespace verbatim

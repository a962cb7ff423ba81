// A lane queue is the one completion queue of a lane, shared by all its queue pairs. Each request's
// id names its queue pair, so a completion finds it by one load. The queue has an entry for every
// send block and receive of its users, because errors flush all. Threads: the lane's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>

#include "queue_user.hpp"

namespace verbatim {

class LaneQueue {
  public:
    static constexpr std::size_t kMostUsers = std::size_t{1} << (64 - QueueUser::kNumberBits);

    // `entries`: to begin with. Throws what the device throws.
    LaneQueue(Device& device, std::uint32_t entries);

    CompletionQueueHandle& handle() noexcept { return *handle_; }
    CompletionChannelHandle& channel() noexcept { return *channel_; }

    // Makes room for completions of one more queue pair; before that is created. Throws
    // Error(out_of_memory) where the device cannot lengthen the queue.
    void reserve(std::uint32_t entries);
    // That queue pair is gone.
    // Any thread.
    void give_back(std::uint32_t entries) noexcept {
        reserved_.fetch_sub(entries, std::memory_order_relaxed);
    }

    // `user` outlives the attachment. Throws Error(out_of_memory): the lane has 65536 queue pairs.
    void attach(QueueUser& user);
    // Its completions that still come are dropped. The device makes none any more.
    void detach(QueueUser& user) noexcept;

    // By slot; null: free. Valid until the next attach().
    std::span<QueueUser* const> all_users() const noexcept { return users_; }
    std::size_t users() const noexcept { return users_.size() - free_slots_.size(); }

    // Takes what has finished, a batch at most; returns its number. Data path.
    std::size_t poll() noexcept {
        const std::size_t count = completions_.poll(finished_);
        for (std::size_t i = 0; i < count; ++i) note(finished_[i]);
        return count;
    }
    // Users with news since the last call, each once. Stays valid until the next poll().
    std::span<QueueUser* const> take_news() noexcept {
        for (QueueUser* user : news_) user->attended();
        taken_.swap(news_);
        news_.clear();
        return taken_;
    }
    bool has_news() const noexcept { return !news_.empty(); }

    // Asks for an event. Poll once more before sleeping. False: the device has no events.
    bool arm() noexcept { return completions_.arm() == Errc::ok; }
    // After the channel could be read.
    void take_events() noexcept;

  private:
    void note(const mlx5::Completion& completion) noexcept {
        QueueUser* const user = users_[completion.id >> QueueUser::kNumberBits];
        if (user->note(completion) && user->wants_attention()) [[unlikely]]
            news_.push_back(user);
    }

    std::unique_ptr<CompletionChannelHandle> channel_;
    std::unique_ptr<CompletionQueueHandle> handle_;
    mlx5::CompletionQueue completions_;
    // Of one poll. On its stack they would be set to zero each time.
    std::array<mlx5::Completion, 16> finished_;
    std::atomic<std::uint64_t> reserved_{0};
    std::vector<QueueUser*> users_;  // by slot; null: free
    std::vector<std::uint32_t> free_slots_;
    // Room for all users is reserved when they are attached: noting allocates nothing.
    std::vector<QueueUser*> news_, taken_;
};

}  // namespace verbatim

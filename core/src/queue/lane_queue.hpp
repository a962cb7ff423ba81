// A lane queue is where all requests of a lane finish: one completion queue, shared by all its
// queue pairs, and further ones where the device cannot lengthen the first. Each request's id names
// its queue pair, so a completion finds it by one load. Threads: the lane's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "queue_user.hpp"
#include "shared_completions.hpp"

namespace verbatim {

class LaneQueue {
  public:
    static constexpr std::size_t kMostUsers = std::size_t{1} << (64 - QueueUser::kNumberBits);

    // `entries`: to begin with. Throws what the device throws.
    LaneQueue(Device& device, std::uint32_t entries);

    CompletionChannelHandle& channel() noexcept { return *channel_; }
    const DeviceInfo& device_info() const noexcept { return device_.info(); }
    // One of its completion queues has this number.
    bool has(std::uint32_t number) const noexcept;

    // Makes room for completions of one more queue pair; before that is created. The entries are
    // taken until they are given back there. Throws Error(out_of_memory) where the device has none.
    SharedCompletions& reserve(std::uint32_t entries);

    // `user` outlives the attachment; its queue pair was made for `completions`. Throws
    // Error(out_of_memory): the lane has 65536 queue pairs.
    void attach(QueueUser& user, SharedCompletions& completions);
    // Its completions that still come are dropped. The device makes none any more.
    void detach(QueueUser& user, SharedCompletions& completions) noexcept;

    // By slot; null: free. Valid until the next attach().
    std::span<QueueUser* const> all_users() const noexcept { return users_; }
    std::size_t users() const noexcept { return users_.size() - free_slots_.size(); }

    // Takes what has finished, a batch of each queue at most. Data path.
    void poll() noexcept {
        poll(first_);
        if (!further_.empty()) poll_further();
    }
    // Completions that were taken since the last call. A post that found its queue half full took
    // some outside of the lane's own poll: each may be the room that a caller waits for.
    std::size_t take_count() noexcept { return std::exchange(count_, 0); }
    // Users with news since the last call, each once. Stays valid until the next poll().
    std::span<QueueUser* const> take_news() noexcept {
        for (QueueUser* user : news_) user->attended();
        taken_.swap(news_);
        news_.clear();
        return taken_;
    }
    bool has_news() const noexcept { return !news_.empty(); }

    // Asks for an event. Poll once more before sleeping. False: the device has no events.
    bool arm() noexcept;
    // After the channel could be read.
    void take_events() noexcept;

  private:
    void poll(SharedCompletions& completions) noexcept {
        const std::size_t count = completions.poll(finished_);
        for (std::size_t i = 0; i < count; ++i) note(finished_[i]);
        count_ += count;
    }
    [[gnu::noinline]] void poll_further() noexcept;
    void note(const mlx5::Completion& completion) noexcept {
        QueueUser* const user = users_[completion.id >> QueueUser::kNumberBits];
        if (user->note(completion) && user->wants_attention()) [[unlikely]]
            news_.push_back(user);
    }
    SharedCompletions* find_room(std::uint32_t entries) noexcept;
    SharedCompletions& grow(std::uint32_t entries);

    Device& device_;
    std::unique_ptr<CompletionChannelHandle> channel_;
    SharedCompletions first_;  // mostly the only one: no poll has to look up where it is
    std::vector<std::unique_ptr<SharedCompletions>> further_;
    // Of one poll. On its stack they would be set to zero each time.
    std::array<mlx5::Completion, 16> finished_;
    std::size_t count_ = 0;
    std::vector<QueueUser*> users_;  // by slot; null: free
    std::vector<std::uint32_t> free_slots_;
    // Room for all users is reserved when they are attached: noting allocates nothing.
    std::vector<QueueUser*> news_, taken_;
};

}  // namespace verbatim

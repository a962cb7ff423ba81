// An inbox hands work from other threads to a lane: tasks, and senders that have messages. The lane
// looks at it with each poll; while it sleeps, a producer rings its bell.
// Threads: push() from any; the rest from the lane's. Data path, but for the bell's system call.
#pragma once

#include <atomic>
#include <cstddef>

#include <boost/lockfree/queue.hpp>

#include <verbatim/core/inbox_item.hpp>
#include <verbatim/driver/descriptor.hpp>

#include "lane_users.hpp"

namespace verbatim {

class Inbox {
  public:
    // Throws Error(device_error) where the process may have no more descriptors.
    Inbox();
    ~Inbox();
    Inbox(const Inbox&) = delete;
    Inbox& operator=(const Inbox&) = delete;

    // Room for one more item, so that push() need not allocate. Any thread. Throws std::bad_alloc.
    void reserve();
    // Ends one reserve(): its room serves the next one. Any thread.
    void give_back() noexcept { spare_.fetch_add(1, std::memory_order_relaxed); }
    // For how many items there is or was room at a time.
    std::size_t most_reserved() const noexcept { return most_reserved_; }
    // The item stays the caller's until it is taken. Throws std::bad_alloc where nothing was
    // reserved.
    void push(InboxItem& item);

    // Wakes the lane where it sleeps: something happened that no descriptor tells of. Any thread.
    void ring() noexcept;

    // Takes what is there, in the order of each producer; returns how many. Items that are pushed
    // meanwhile wait for the next call.
    std::size_t take() noexcept {
        if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
            asleep_.store(false, std::memory_order_relaxed);
        return items_.empty() ? 0 : users_.run([this] { return take_all(); });
    }
    // From now on producers ring. False: there is something to take.
    bool prepare_to_sleep() noexcept;
    // Readable once the bell was rung.
    int bell() const noexcept { return bell_.get(); }
    void quiet() noexcept;

    // The threads that take.
    LaneUsers& users() noexcept { return users_; }

    // Its thread waits for another and takes nothing meanwhile. By that thread; read by any.
    void set_stuck(bool is) noexcept { stuck_.store(is, std::memory_order_seq_cst); }
    bool is_stuck() const noexcept { return stuck_.load(std::memory_order_seq_cst); }

  private:
    std::size_t take_all() noexcept;

    boost::lockfree::queue<InboxItem*> items_;
    Descriptor bell_;  // eventfd
    LaneUsers users_;
    std::atomic<bool> asleep_{false}, stuck_{false};
    std::atomic<std::size_t> spare_{0}, most_reserved_{0};
};

}  // namespace verbatim

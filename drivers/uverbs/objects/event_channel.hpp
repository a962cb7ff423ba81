// Descriptors from which a program reads events: completion channels, and the one of asynchronous
// events. Each is one end of a socket, so read(), poll() and O_NONBLOCK are the system's. Threads:
// any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "../../softnic/host/descriptor.hpp"

namespace verbatim::uverbs {

// Both ends of one.
class EventSocket {
  public:
    // Throws Error(device_error) if there are no descriptors left.
    EventSocket();

    // What the program gets and closes.
    int programs_end() const noexcept { return programs_end_; }
    // The program has closed its end.
    bool closed() const noexcept;

  protected:
    // One event, counted in `sent`. False: there is no room for it now.
    bool send(std::span<const std::byte> event, std::atomic<std::uint32_t>& sent) noexcept;
    // Takes back what the program has not read yet of the events whose first word this is; returns
    // how many.
    std::uint32_t withdraw_all(std::uint64_t first_word);

  private:
    std::mutex mutex_;
    softnic::Descriptor ours_;
    int programs_end_ = -1;
    std::uint64_t inode_ = 0;  // of the program's end: whether its number still means that
};

// Of completion queues.
class EventChannel : public EventSocket {
  public:
    // One event of the queue that the program calls `queue`.
    bool post(std::uint64_t queue, std::atomic<std::uint32_t>& sent) noexcept;
    std::uint32_t withdraw(std::uint64_t queue) { return withdraw_all(queue); }
};

// What becomes of queues beside completions (enum ibv_event_type).
enum class AsyncEvent : std::uint32_t {
    completion_queue_error = 0,
    queue_pair_fatal = 1,
    queue_pair_request_error = 2,
    queue_pair_access_error = 3,
    established = 4,
    drained = 5,
    shared_receives_limit = 15,
    last_receive = 16
};

class AsyncEvents : public EventSocket {
  public:
    // Of the object that the program calls `object`, counted in `sent`.
    void post(std::uint64_t object, AsyncEvent event, std::atomic<std::uint32_t>& sent) noexcept;
    // No event of the object comes any more: how many the program has read of those sent.
    std::uint32_t end_events(std::uint64_t object, const std::atomic<std::uint32_t>& sent) {
        const std::uint32_t unread = withdraw_all(object);
        return sent.load() - unread;
    }
};

}  // namespace verbatim::uverbs

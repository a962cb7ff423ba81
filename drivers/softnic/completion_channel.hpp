// Where the events of armed completion queues arrive: a counter in the kernel that can be waited
// for, and per queue how many of its events nobody has taken. Peers wake the waiting thread through
// doors, without a thread of this process between. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "host/descriptor.hpp"
#include "host/wake_file.hpp"

namespace verbatim::softnic {

class CompletionChannel;

// A door is the way by which one peer wakes the thread that waits for a completion channel. Shared
// by the queue pairs of that channel which the peer sends to: the channel outlives them.
class WakeDoor {
  public:
    WakeDoor(CompletionChannel& channel, std::uint64_t session, Descriptor file);
    ~WakeDoor();
    WakeDoor(const WakeDoor&) = delete;
    WakeDoor& operator=(const WakeDoor&) = delete;

    std::uint64_t session() const noexcept { return session_; }
    // Of all doors of this process, from 1.
    std::uint32_t number() const noexcept { return number_; }
    // May outlive the door.
    const std::shared_ptr<const WakeFile>& file() const noexcept { return file_; }

  private:
    CompletionChannel& channel_;
    const std::uint64_t session_, generation_ = fork_generation();
    const std::uint32_t number_;
    const std::shared_ptr<const WakeFile> file_;
};

class CompletionChannel final : public CompletionChannelHandle {
  public:
    // Part of each queue that uses the channel.
    struct Source {
        CompletionQueueHandle* queue = nullptr;
        // True: the queue was armed, and is not any more.
        bool (*disarm)(CompletionQueueHandle* queue) noexcept = nullptr;
        std::atomic<std::uint32_t> events{0};  // not taken yet
    };

    // Throws Error(device_error).
    CompletionChannel();

    int file() const noexcept override { return waited_.get(); }
    CompletionQueueHandle* take_event() override;

    void add(Source& source);
    void remove(const Source& source);
    // Data path: one system call.
    void raise(Source& source) noexcept;

    // Control thread. Null: the process may have no more descriptors.
    std::shared_ptr<WakeDoor> door_for(std::uint64_t session);

  private:
    friend WakeDoor;
    CompletionQueueHandle* take_counted() noexcept;
    bool look(CompletionQueueHandle*& woken) noexcept;
    void forget(const WakeDoor& door) noexcept;

    Descriptor counter_;
    Descriptor waited_;  // an epoll instance: the counter and the doors
    std::mutex mutex_;   // guards what follows
    std::vector<Source*> sources_;
    std::vector<std::weak_ptr<WakeDoor>> doors_;  // one for each process that sends here
};

}  // namespace verbatim::softnic

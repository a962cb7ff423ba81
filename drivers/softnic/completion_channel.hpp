// Where the events of armed completion queues arrive: a counter in the kernel that can be waited
// for, and per queue how many of its events nobody has taken. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "host/descriptor.hpp"

namespace verbatim::softnic {

class CompletionChannel final : public CompletionChannelHandle {
  public:
    // Part of each queue that uses the channel.
    struct Source {
        CompletionQueueHandle* queue = nullptr;
        std::atomic<std::uint32_t> events{0};  // not taken yet
    };

    // Throws Error(device_error).
    CompletionChannel();

    int file() const noexcept override { return counter_.get(); }
    CompletionQueueHandle* take_event() override;

    void add(Source& source);
    void remove(const Source& source);
    // Data path: one system call.
    void raise(Source& source) noexcept;

  private:
    Descriptor counter_;
    std::mutex mutex_;  // guards sources_
    std::vector<Source*> sources_;
};

}  // namespace verbatim::softnic

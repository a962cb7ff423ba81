// A device that does what a test says: events that come, peers that are stopped in a copy.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include <verbatim/softnic/softnic.hpp>

namespace verbatim::test {

// The software NIC, whose events and barriers the test makes.
class ScriptedDevice : public Device {
  public:
    ScriptedDevice() : inner_(softnic::open_device({})), bell_(eventfd(0, EFD_NONBLOCK)) {}
    ~ScriptedDevice() override { close(bell_); }

    void raise(DeviceEventKind kind, std::uint32_t number = 0) {
        const std::lock_guard lock(mutex_);
        events_.push_back({kind, number, "test0 port 1: it happened"});
        eventfd_write(bell_, 1);
    }
    // Some were raised that nobody has taken.
    bool has_events() {
        const std::lock_guard lock(mutex_);
        return !events_.empty();
    }
    std::uint32_t last_queue_pair = 0, last_completion_queue = 0;
    std::atomic<bool> barriers_pass = true;
    std::atomic<int> queue_pairs = 0, regions = 0;  // made so far

    int event_file() const noexcept override { return bell_; }
    std::optional<DeviceEvent> take_event() override {
        const std::lock_guard lock(mutex_);
        eventfd_t count = 0;
        eventfd_read(bell_, &count);
        if (events_.empty()) return std::nullopt;
        DeviceEvent event = events_.front();
        events_.pop_front();
        return event;
    }

    const DeviceInfo& info() const noexcept override { return inner_->info(); }
    std::unique_ptr<MemoryRegion> register_memory(std::byte* address, std::size_t bytes,
                                                  Access access, MemoryBacking backing) override {
        ++regions;
        return inner_->register_memory(address, bytes, access, backing);
    }
    std::unique_ptr<MemoryWindow> create_memory_window(WindowType type) override {
        return inner_->create_memory_window(type);
    }
    std::unique_ptr<CompletionChannelHandle> create_completion_channel() override {
        return inner_->create_completion_channel();
    }
    std::unique_ptr<CompletionQueueHandle> create_completion_queue(
        std::uint32_t entries, CompletionChannelHandle* channel) override {
        auto queue = inner_->create_completion_queue(entries, channel);
        last_completion_queue = queue->view().number;
        return queue;
    }
    std::unique_ptr<SharedReceiveQueueHandle> create_shared_receive_queue(
        const SharedReceiveQueueOptions& options) override {
        return inner_->create_shared_receive_queue(options);
    }
    std::unique_ptr<QueuePairHandle> create_queue_pair(const QueuePairOptions& options) override {
        ++queue_pairs;
        auto pair = inner_->create_queue_pair(options);
        last_queue_pair = pair->view().number;
        return pair;
    }
    std::unique_ptr<RevocationBarrier> begin_barrier() override {
        return std::make_unique<Barrier>(inner_->begin_barrier(), barriers_pass);
    }
    const volatile std::uint64_t* invalidation_epoch() const noexcept override {
        return inner_->invalidation_epoch();
    }

  private:
    class Barrier final : public RevocationBarrier {
      public:
        Barrier(std::unique_ptr<RevocationBarrier> inner, const std::atomic<bool>& passes)
            : inner_(std::move(inner)), passes_(passes) {}
        bool has_passed() noexcept override { return passes_ && inner_->has_passed(); }

      private:
        std::unique_ptr<RevocationBarrier> inner_;
        const std::atomic<bool>& passes_;
    };

    std::unique_ptr<Device> inner_;
    int bell_;
    std::mutex mutex_;
    std::deque<DeviceEvent> events_;
};

}  // namespace verbatim::test

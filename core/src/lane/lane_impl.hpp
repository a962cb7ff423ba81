// A lane's state: its completion queue, the connections that it polls, and how it sleeps.
// Threads: one at a time (checked in debug builds), but for what says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include <verbatim/core/config.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/driver/device.hpp>

#include "../queue/lane_queue.hpp"
#include "../telemetry/lane_telemetry.hpp"
#include "idle.hpp"
#include "inbox.hpp"
#include "lane_lists.hpp"
#include "one_thread.hpp"
#include "patience.hpp"
#include "polled_set.hpp"
#include "wait_set.hpp"

namespace verbatim {

class DeviceEvents;

// What the lanes of a context share; `keeps` keeps the rest alive.
struct LaneResources {
    std::shared_ptr<void> keeps;
    Device& device;
    Quarantine& quarantine;
    DeviceEvents& events;
    std::shared_ptr<NotePool> notes;  // of this lane's connections
    std::chrono::milliseconds idle_timeout;
    telemetry::ContextCounts* telemetry;
};

struct Lane::Impl : std::enable_shared_from_this<Lane::Impl> {
  public:
    Impl(LaneResources resources, const Config::LaneSection& config);
    // Waits for connections that are closing.
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    auto enter() noexcept { return one_thread_.enter("a lane"); }
    bool in_handler() const noexcept { return in_handler_; }
    // Marks that a handler runs.
    class InHandler {
      public:
        explicit InHandler(Impl& lane) noexcept
            : lane_(lane), before_(std::exchange(lane.in_handler_, true)) {}
        ~InHandler() { lane_.in_handler_ = before_; }
        InHandler(const InHandler&) = delete;
        InHandler& operator=(const InHandler&) = delete;

      private:
        Impl& lane_;
        bool before_;
    };

    std::size_t poll() noexcept;
    // What it has counted: events are how many things have happened.
    const telemetry::LaneTelemetry::Lane& counts() const noexcept { return counts_; }
    bool prepare_to_sleep() noexcept;
    // One round of a wait whose caller found nothing: spins, or sleeps until something happened.
    // It does not sleep where anything has happened since the round before. `round` counts from 0
    // since the last success.
    void pause(unsigned round, Deadline deadline) noexcept;

    // Members, with the descriptor of their side channel. Throws Error.
    void join(LaneMember& member, int socket);
    // `moves`: to another lane.
    void leave(LaneMember& member, int socket, bool moves = false) noexcept;
    // The side channel has told all.
    void forget(int socket) noexcept { waits_.remove(socket); }

    // That it was made with. Any thread.
    const LaneResources& resources() const noexcept { return resources_; }
    LaneMode mode() const noexcept { return patience_.mode(); }
    int descriptor() const noexcept { return waits_.file(); }
    // The thread of the poller that drives the lane, if one does. Any thread.
    std::atomic<std::thread::id>& runner() noexcept { return runner_; }
    // Any thread may push.
    Inbox& inbox() noexcept { return inbox_; }
    LaneQueue& queue() noexcept { return queue_; }
    PolledSet& polled() noexcept { return polled_; }
    StalledItems& stalled() noexcept { return stalled_; }
    PendingMembers& pending() noexcept { return pending_; }
    KeptObjects& kept() noexcept { return kept_; }

  private:
    std::size_t poll_once() noexcept;
    bool settle_down() noexcept;
    std::size_t take_sockets(int milliseconds) noexcept;
    std::size_t look_seldom() noexcept;

    const LaneResources resources_;
    LaneQueue queue_;
    PolledSet polled_;
    WaitSet waits_;
    Inbox inbox_;
    std::atomic<std::thread::id> runner_{};
    OneThread one_thread_;
    LanePatience patience_;
    StalledItems stalled_;
    PendingMembers pending_;
    KeptObjects kept_;
    telemetry::LaneTelemetry telemetry_;
    telemetry::LaneTelemetry::Lane counts_;
    bool in_handler_ = false;
    SeldomLooks seldom_;
};

// Throws Error(permission_denied) about `object` in a forked child, where the lane is the parent's:
// nobody drives it there.
void refuse_inherited(Lane::Impl& lane, const char* object);

// Room in a lane's inbox for an item that comes again and again. Any thread.
class InboxPlace {
  public:
    // Throws std::bad_alloc.
    explicit InboxPlace(const std::shared_ptr<Lane::Impl>& lane) : lane_(lane) {
        lane->inbox().reserve();
    }
    ~InboxPlace() {
        if (const auto lane = lane_.lock()) lane->inbox().give_back();
    }
    InboxPlace(InboxPlace&&) noexcept = default;
    InboxPlace& operator=(InboxPlace&&) = delete;
    void swap(InboxPlace& other) noexcept { lane_.swap(other.lane_); }
    // Null: the lane has ended.
    std::shared_ptr<Lane::Impl> lane() const noexcept { return lane_.lock(); }

  private:
    std::weak_ptr<Lane::Impl> lane_;  // what waits in a lane's inbox does not keep it
};

}  // namespace verbatim

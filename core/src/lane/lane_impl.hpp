// A lane's state: its completion queue, the connections that it polls, and how it sleeps.
// Threads: one at a time (checked in debug builds).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <verbatim/core/config.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/driver/device.hpp>

#include "../queue/lane_queue.hpp"
#include "inbox.hpp"
#include "one_thread.hpp"
#include "polled_set.hpp"
#include "wait_set.hpp"

namespace verbatim {

struct Lane::Impl {
  public:
    // `resources`: kept alive as long as the lane; `device` and `config` are parts of it.
    Impl(std::shared_ptr<void> resources, Device& device, const Config::LaneSection& config);
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
    // How many things have happened.
    std::uint64_t events() const noexcept { return events_; }
    bool prepare_to_sleep() noexcept;
    // One round of a wait whose caller found nothing: spins, or sleeps until something happened.
    // It does not sleep where anything has happened since the round before. `round` counts from 0
    // since the last success.
    void pause(unsigned round, Deadline deadline) noexcept;

    // Members, with the descriptor of their side channel. Throws Error.
    void join(LaneMember& member, int socket);
    void leave(LaneMember& member, int socket) noexcept;
    // The side channel has told all.
    void forget(int socket) noexcept { waits_.remove(socket); }
    // Keeps `object`, the memory of `member`, until no message in it is held.
    void linger(std::shared_ptr<void> object, const LaneMember& member) {
        lingering_.push_back({std::move(object), &member});
    }
    // The end of this member is awaited, which no event may tell of: each poll asks its owner,
    // until that needs it no more.
    void await_end(LaneMember& member) noexcept;
    void end_awaited(LaneMember& member) noexcept;
    // Keeps a connection that lives on this lane by itself, until it ends or the lane is cleared.
    void host(std::shared_ptr<void> connection) { hosted_.push_back(std::move(connection)); }
    void end_hosted(const void* connection) noexcept;
    void end_all_hosted() noexcept;
    // The resources that it was made with.
    const void* resources() const noexcept { return resources_.get(); }

    // Takes this item once more by the next poll: it found no room.
    void expect_stalls(std::size_t senders) {
        stalled_.reserve(senders);
        retried_.reserve(senders);
    }
    template <class Item>
    void stall(std::shared_ptr<Item> item) {
        InboxItem* const raw = item.get();
        stalled_.push_back({std::move(item), raw});
    }
    // The thread of the poller that drives the lane, if one does. Any thread.
    std::thread::id runner() const noexcept { return runner_.load(std::memory_order_relaxed); }
    void set_runner(std::thread::id thread) noexcept {
        runner_.store(thread, std::memory_order_relaxed);
    }
    Inbox& inbox() noexcept { return inbox_; }
    LaneMode mode() const noexcept { return config_.mode; }
    LaneQueue& queue() noexcept { return queue_; }
    PolledSet& polled() noexcept { return polled_; }
    int descriptor() const noexcept { return waits_.file(); }
    std::size_t members() const noexcept { return members_; }

  private:
    void attend() noexcept;
    void look_at_ending() noexcept;
    void retry_stalled() noexcept;
    std::size_t take_sockets(int milliseconds) noexcept;
    std::size_t look_seldom() noexcept;
    std::size_t poll_once() noexcept;
    bool settle_down() noexcept;
    bool must_spin(unsigned round) noexcept;

    const std::shared_ptr<void> resources_;
    const Config::LaneSection config_;
    LaneQueue queue_;
    PolledSet polled_;
    WaitSet waits_;
    Inbox inbox_;
    std::atomic<std::thread::id> runner_{};
    OneThread one_thread_;
    struct Lingering {
        std::shared_ptr<void> object;
        const LaneMember* member;
    };
    std::vector<Lingering> lingering_;
    std::vector<std::shared_ptr<void>> hosted_;
    std::size_t members_ = 0;
    std::vector<LaneMember*> ending_;
    struct Stalled {
        std::shared_ptr<void> keeps;
        InboxItem* item;
    };
    std::vector<Stalled> stalled_, retried_;
    std::chrono::milliseconds look_after_{1};
    std::uint64_t polls_ = 0, events_ = 0;
    std::uint64_t events_at_pause_ = 0;  // when pause() was called last
    bool in_handler_ = false;
    Clock::time_point looked_{};      // at the side channels
    Clock::time_point wait_began_{};  // and whether it still spins
    bool spins_ = false;
};

}  // namespace verbatim

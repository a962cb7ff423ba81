// A lane's state: its completion queue, the connections that it polls, and how it sleeps.
// Threads: one at a time (checked in debug builds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <verbatim/core/config.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/driver/device.hpp>

#include "../queue/lane_queue.hpp"
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
    bool wait(Deadline deadline) noexcept;
    bool prepare_to_sleep() noexcept;
    // One round of a wait whose caller found nothing: spins, or sleeps until something happened.
    // `round` counts from 0 since the last success.
    void pause(unsigned round, Deadline deadline) noexcept;

    // Members, with the descriptor of their side channel. Throws Error.
    void join(LaneMember& member, int socket);
    void leave(LaneMember& member, int socket) noexcept;
    // The side channel has told all.
    void forget(int socket) noexcept { waits_.remove(socket); }
    // Keeps `object` until the lane's next poll: a connection that ended in its own handler.
    void defer(std::shared_ptr<void> object) { deferred_.push_back(std::move(object)); }
    // Keeps `object`, the memory of `member`, until no message in it is held.
    void linger(std::shared_ptr<void> object, const LaneMember& member) {
        lingering_.push_back({std::move(object), &member});
    }
    // The end of one more (less) connection is awaited, which no event may tell of.
    void await_end(int connections) noexcept { ending_ += connections; }
    // Looks at side channels now.
    void look_at_sockets() noexcept { (void)take_sockets(0); }

    LaneQueue& queue() noexcept { return queue_; }
    PolledSet& polled() noexcept { return polled_; }
    int descriptor() const noexcept { return waits_.file(); }
    std::size_t members() const noexcept { return members_; }

  private:
    void attend() noexcept;
    std::size_t take_sockets(int milliseconds) noexcept;
    std::size_t look_seldom() noexcept;
    bool settle_down() noexcept;
    bool must_spin(unsigned round) noexcept;

    const std::shared_ptr<void> resources_;
    const Config::LaneSection& config_;
    LaneQueue queue_;
    PolledSet polled_;
    WaitSet waits_;
    OneThread one_thread_;
    struct Lingering {
        std::shared_ptr<void> object;
        const LaneMember* member;
    };
    std::vector<Lingering> lingering_;
    std::vector<std::shared_ptr<void>> deferred_;
    std::size_t members_ = 0;
    int ending_ = 0;  // members
    std::chrono::milliseconds look_after_{1};
    std::uint64_t polls_ = 0;
    bool in_handler_ = false;
    Clock::time_point looked_{};      // at the side channels
    Clock::time_point wait_began_{};  // and whether it still spins
    bool spins_ = false;
};

}  // namespace verbatim

// The histograms of a connection, where they are switched on: of its operations, from posting to
// completion, and of the handler of each channel. Of the operations one is measured at a time.
// Threads: the lane's. No allocation, lock or system call, but in the constructor and wrap().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/core/connection.hpp>

#include "../queue/post_watch.hpp"
#include "segment.hpp"

namespace verbatim::telemetry {

class MemberHistograms : private RetiredWatch {
  public:
    // `done(owner)`: after an operation was measured; the next may begin.
    MemberHistograms(std::shared_ptr<Segment> segment, std::uint64_t connection, void* owner,
                     void (*done)(void* owner) noexcept);

    // The handler to be called in the place of `handler`, which measures it. Throws std::bad_alloc.
    ChannelHandler wrap(std::uint8_t channel, ChannelHandler handler);
    // The request of this number is posted now. Null: one is being measured already, or is lost
    // with its queue pair.
    RetiredWatch* begin(std::uint64_t request) noexcept;
    // The queue pair is another's now: what was begun never ends.
    void forget() noexcept { number = kNone; }
    // Writes those that have changed.
    void publish() noexcept;

  private:
    using Clock = std::chrono::steady_clock;
    struct Measured {
        Measured(Segment& segment, std::uint64_t connection, std::uint64_t channel);
        void record(Clock::time_point since) noexcept;

        NamedHistogram named;
        Slot slot;
        bool has_news = false;
    };
    struct Timed;
    static void operation_retired(RetiredWatch& watch, bool failed) noexcept;

    const std::shared_ptr<Segment> segment_;
    const std::uint64_t connection_;
    void* const owner_;
    void (*const done_)(void* owner) noexcept;
    std::vector<std::shared_ptr<Measured>> all_;  // that of operations first
    Clock::time_point began_{};
};

}  // namespace verbatim::telemetry

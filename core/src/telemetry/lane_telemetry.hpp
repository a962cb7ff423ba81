// A lane's telemetry writes the counts of its connections to the segment: now and then while the
// lane polls, and before it sleeps. Only connections with news are written: their send paths tell
// of the next request (queue/post_watch.hpp), and those that are polled are asked.
// Threads: the lane's. No allocation, lock or system call, but in expect(), add() and leave().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "../queue/post_watch.hpp"
#include "context_counts.hpp"
#include "member_histograms.hpp"

namespace verbatim::telemetry {

class LaneTelemetry;

// A connection as telemetry sees it.
struct MemberTelemetry : PostWatch {
    // Set by the connection before it joins a lane, beside `id`: its counts now. And its rest:
    // watches for the next request; false: counts change without one, by a completion.
    void* owner = nullptr;
    void (*fill)(void* owner, ConnectionCounts& counts) noexcept = nullptr;
    bool (*rest)(void* owner) noexcept = nullptr;
    const char* transport = "";
    const std::uint64_t* wakeups = nullptr;  // that were sent

    // It has news. No effect without telemetry.
    void note() noexcept;

    LaneTelemetry* lane = nullptr;
    bool is_listed = false;  // among those with news
    std::uint64_t id = 0;
    bool has_slot = false;  // or was refused one
    Slot slot;
    std::unique_ptr<MemberHistograms> times;  // null: not switched on
};

class LaneTelemetry {
  public:
    // What the lane itself knows.
    struct Lane {
        std::uint64_t id = 0, polls = 0, events = 0, connections = 0, polled = 0;
    };

    // `context` outlives it.
    explicit LaneTelemetry(ContextCounts& context);

    bool is_on() const noexcept { return segment_ != nullptr; }
    std::uint64_t id() const noexcept { return counts_.id; }
    // Room for one more, so that add() allocates nothing. Throws std::bad_alloc.
    void expect() {
        news_.reserve(members_ + 1);
        pass_.reserve(members_ + 1);
    }
    void add(MemberTelemetry& member) noexcept;
    // Its counts are added to those of ended connections, unless it moves to another lane.
    void leave(MemberTelemetry& member, bool moves) noexcept;
    void note(MemberTelemetry& member) noexcept {
        if (member.is_listed) return;
        member.is_listed = true;
        news_.push_back(&member);  // has room
    }

    // An interval has passed since the last pass began, and that is over.
    bool is_due(std::chrono::steady_clock::time_point now) noexcept {
        if (segment_ == nullptr || now < next_pass_) return false;
        next_pass_ = now + segment_->config().interval;
        return pass_.empty();
    }
    // After is_due(), and once the polled connections are noted: a pass begins.
    void begin_pass(const Lane& lane) noexcept {
        pass_.swap(news_);
        publish(lane);
        context_.collect(next_pass_ - segment_->config().interval);
    }
    // Part of a pass: a few connections, so that no poll takes long.
    void go_on() noexcept {
        for (std::size_t i = 0; i < kAtOnce && !pass_.empty(); ++i) flush_next();
    }
    // The lane goes to sleep: all of them.
    void sleeps(const Lane& lane) noexcept;

  private:
    static constexpr std::size_t kAtOnce = 8;
    void flush(MemberTelemetry& member) noexcept;
    void flush_next() noexcept;
    void publish(const Lane& lane) noexcept;

    ContextCounts& context_;
    const std::shared_ptr<Segment> segment_;
    Slot slot_;
    LaneCounts counts_;
    // Those with news, and those that the pass under way has yet to write.
    std::vector<MemberTelemetry*> news_, pass_;
    std::size_t members_ = 0;
    std::chrono::steady_clock::time_point next_pass_{};
};

inline void MemberTelemetry::note() noexcept {
    if (lane != nullptr) lane->note(*this);
}

}  // namespace verbatim::telemetry

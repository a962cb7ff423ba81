// A lane driver polls the lanes of a thread that waits for something else: an answer of another
// thread, callers, a handshake. Their handlers and tasks run meanwhile.
// Threads: that of the lanes. Control path.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <verbatim/core/config.hpp>
#include <verbatim/core/inbox_item.hpp>
#include <verbatim/core/lane.hpp>

#include "../awaited/awaited.hpp"
#include "patience.hpp"

namespace verbatim {

// An answer tells a thread that waits and drives lanes: it comes by the inbox of one of these.
class Answer : public InboxItem {
  public:
    struct Expected {
        std::shared_ptr<Answer> answer;
        std::shared_ptr<void> teller;  // the end of its last copy, in any thread, tells
    };
    // `home`: the lane by which it comes. In its thread. Throws std::bad_alloc.
    static Expected expect(const Lane& home);
    bool has_come() const noexcept { return has_come_; }

  private:
    Answer() = default;
    std::shared_ptr<Answer> self_;  // while it is in the inbox
    bool has_come_ = false;
};

class LaneDriver {
  public:
    // Once. Returns how many things happened.
    virtual std::size_t poll() noexcept = 0;
    // One round of a wait, after a poll. True: it is time to sleep, and a wake-up was asked for;
    // wait for descriptor(), then poll. False: poll again.
    virtual bool may_sleep() noexcept = 0;
    virtual int descriptor() const noexcept = 0;
    virtual bool in_handler() const noexcept = 0;
    // Where answers come.
    virtual Lane home() const noexcept = 0;
    // Of all its inboxes.
    virtual void set_stuck(bool is) noexcept = 0;

    // Of the poller whose thread this is; null: it is no poller's.
    static LaneDriver*& of_thread() noexcept;

    // Marks a wait that drives. Tasks that it runs may wait too, one inside the other.
    class Wait {
      public:
        Wait() noexcept { ++depth(); }
        ~Wait() { --depth(); }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;
    };
    // So many waits are under way in this thread that the next one must not drive: each takes some
    // stack.
    static bool is_deep() noexcept { return depth() >= kMostWaits; }

  protected:
    ~LaneDriver() = default;

  private:
    static constexpr unsigned kMostWaits = 32;
    static unsigned& depth() noexcept;
};

// The driver of a lane in a loop of the program's own.
class SingleLane final : public LaneDriver {
  public:
    SingleLane(Lane lane, const Config::LaneSection& section) noexcept
        : lane_(std::move(lane)), patience_(section) {}
    std::size_t poll() noexcept override;
    bool may_sleep() noexcept override;
    int descriptor() const noexcept override { return lane_.descriptor(); }
    bool in_handler() const noexcept override;
    Lane home() const noexcept override { return lane_; }
    void set_stuck(bool is) noexcept override;

  private:
    Lane lane_;
    LanePatience patience_;
    unsigned idle_rounds_ = 0;  // since something happened
};

// The lanes to be driven by a call that waits on this lane, in its thread: all of a poller's, else
// this one alone; none in too deep a wait.
class WaitingLanes {
  public:
    // `section`: of the context; the lane's own mode counts.
    WaitingLanes(const Lane& lane, Config::LaneSection section);
    LaneDriver* driver() noexcept {
        if (LaneDriver::is_deep()) return nullptr;
        return alone_ ? &*alone_ : LaneDriver::of_thread();
    }

  private:
    std::optional<SingleLane> alone_;
};

// A wait of this thread, round by round, until its caller has what it waits for. The lanes are
// driven meanwhile, and all that the thread awaits goes on.
class WaitRounds {
  public:
    // `driver`: null where no lanes are driven. A round sleeps until the deadline at most.
    WaitRounds(LaneDriver* driver, Deadline deadline) noexcept
        : driver_(driver), deadline_(deadline) {}
    void next() noexcept;

  private:
    bool drive() noexcept;

    LaneDriver* const driver_;
    const Deadline deadline_;
    const LaneDriver::Wait wait_;
};

}  // namespace verbatim

// A lane driver polls the lanes of a thread that waits for something else: an answer of another
// thread, or callers. Their handlers and tasks run meanwhile.
// Threads: that of the lanes. Control path.
#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <verbatim/core/config.hpp>
#include <verbatim/core/inbox_item.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/driver/error.hpp>

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

    void drive_until(const Answer& answer) noexcept;
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
    // stack, and a handshake a thread.
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

// Runs `work()` in a thread of its own, while this one drives its lanes; in this one, where it
// drives none. Returns its value, or throws what it throws. Throws Error(out_of_memory): there is
// no thread for it.
template <class Work>
std::invoke_result_t<Work&> run_beside(LaneDriver* driver, Work work) {
    if (driver == nullptr || LaneDriver::is_deep()) return work();
    std::packaged_task<std::invoke_result_t<Work&>()> task(std::move(work));
    auto value = task.get_future();
    auto [answer, teller] = Answer::expect(driver->home());
    std::thread worker;
    try {
        worker = std::thread([task = std::move(task), told = std::move(teller)]() mutable {
            task();
            told.reset();
        });
    } catch (const std::system_error& error) {
        throw Error(Errc::out_of_memory, "lane",
                    std::string("no thread for a handshake: ") + error.what(),
                    "raise the limit: ulimit -u");
    }
    driver->drive_until(*answer);
    worker.join();
    return value.get();
}

}  // namespace verbatim

// Waiting threads that drive lanes, and the wait of Lane::call() in them.
#include "lane_driver.hpp"

#include <emmintrin.h>
#include <sched.h>

#include <new>

#include "lane_impl.hpp"

namespace verbatim {
namespace {

// It must come. Where memory is short, the lane's thread frees room in the inbox soon.
void push_somehow(Inbox& inbox, InboxItem& item) noexcept {
    for (;;) try {
            return inbox.push(item);
        } catch (const std::bad_alloc&) {
            sched_yield();
        }
}

}  // namespace

Answer::Expected Answer::expect(const Lane& home) {
    const std::shared_ptr<Answer> answer(new Answer);
    answer->take = [](InboxItem& item) noexcept {
        auto& come = static_cast<Answer&>(item);
        const std::shared_ptr<Answer> alive = std::move(come.self_);
        come.has_come_ = true;
    };
    answer->drop = [](InboxItem& item) noexcept { static_cast<Answer&>(item).self_.reset(); };
    return {answer, std::shared_ptr<void>(answer.get(), [answer, home](void*) {
                answer->self_ = answer;
                push_somehow(home.impl()->inbox(), *answer);
            })};
}

LaneDriver*& LaneDriver::of_thread() noexcept {
    static thread_local LaneDriver* driver = nullptr;
    return driver;
}

unsigned& LaneDriver::depth() noexcept {
    static thread_local unsigned waits = 0;
    return waits;
}

// True: the lanes may sleep.
bool WaitRounds::drive() noexcept {
    if (driver_ == nullptr) return true;
    std::size_t happened = 0;
    const unsigned polls = Awaited::any() ? Awaited::kPollsPerLook : 1;
    for (unsigned i = 0; i < polls; ++i) happened += driver_->poll();
    // What the caller waits for may have come with that.
    return happened == 0 && driver_->may_sleep();
}

void WaitRounds::next() noexcept {
    const bool sleeps = drive();
    if (!sleeps && !Awaited::any()) return _mm_pause();
    Awaited::look(sleeps, driver_ == nullptr ? -1 : driver_->descriptor(), deadline_);
}

std::size_t SingleLane::poll() noexcept {
    const std::size_t happened = lane_.poll();
    if (happened != 0) idle_rounds_ = 0;
    return happened;
}

bool SingleLane::may_sleep() noexcept {
    return !patience_.spins(idle_rounds_++) && lane_.prepare_to_sleep();
}

bool SingleLane::in_handler() const noexcept { return lane_.impl()->in_handler(); }

void SingleLane::set_stuck(bool is) noexcept { lane_.impl()->inbox().set_stuck(is); }

WaitingLanes::WaitingLanes(const Lane& lane, Config::LaneSection section) {
    section.mode = lane.impl()->mode();
    if (LaneDriver::of_thread() == nullptr) alone_.emplace(lane, section);
}

Lane::Wait Lane::begin_wait() const {
    refuse_inherited(*impl_, "lane");
    LaneDriver* const driver = LaneDriver::of_thread();
    if (driver == nullptr) return {};
    if (driver->in_handler())
        throw Error(Errc::would_deadlock, "lane",
                    "a handler of a poller called something that waits for the thread of another",
                    "give a task to Lane::submit() and do it there: tasks may wait");
    if (LaneDriver::is_deep()) return begin_stuck_wait();
    auto [answer, teller] = Answer::expect(driver->home());
    return {std::move(answer), std::move(teller)};
}

// Of threads that wait for each other so, the last one to begin sees that the other is stuck.
Lane::Wait Lane::begin_stuck_wait() const {
    LaneDriver* const driver = LaneDriver::of_thread();
    driver->set_stuck(true);
    std::shared_ptr<void> end(driver, [](LaneDriver* one) { one->set_stuck(false); });
    if (impl_->inbox().is_stuck())
        throw Error(Errc::would_deadlock, "lane",
                    "many tasks of two pollers wait for each other, one inside the other",
                    "give fewer tasks that wait to Lane::submit() at a time");
    return {nullptr, nullptr, std::move(end)};
}

void Lane::go_on_until(const Wait& wait) noexcept {
    if (wait.answer == nullptr) return;
    const auto& answer = *static_cast<const Answer*>(wait.answer.get());
    WaitRounds rounds(LaneDriver::of_thread(), Deadline::never());
    while (!answer.has_come()) rounds.next();
}

}  // namespace verbatim

// The public face of a lane: the thread check, and work of other threads.
#include <thread>
#include <utility>

#include "lane_driver.hpp"
#include "lane_impl.hpp"

namespace verbatim {
namespace {

constexpr std::chrono::seconds kHandedOver{2};

}  // namespace

void refuse_inherited(Lane::Impl& lane, const char* object) {
    if (lane.polled().is_inherited())
        throw Error(Errc::permission_denied, object,
                    "it is the parent's: a forked child cannot use it",
                    "make a context in the child");
}

Lane::Lane(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

std::size_t Lane::poll() noexcept {
    const auto guard = impl_->enter();
    return impl_->poll();
}

bool Lane::wait(Deadline deadline) noexcept {
    const auto guard = impl_->enter();
    const std::uint64_t before = impl_->counts().events;
    const bool may_wait = !impl_->in_handler() && !impl_->polled().is_inherited();
    for (unsigned round = 0; may_wait; ++round) {
        (void)impl_->poll();
        if (impl_->counts().events != before) return true;
        if (deadline.passed(round)) return false;
        impl_->pause(round, deadline);
    }
    return false;
}

bool Lane::prepare_to_sleep() noexcept {
    const auto guard = impl_->enter();
    return impl_->prepare_to_sleep();
}

void Lane::push(InboxItem* task) {
    try {
        refuse_inherited(*impl_, "lane");
        impl_->inbox().push(*task);
    } catch (...) {
        task->drop(*task);
        throw;
    }
}

bool Lane::is_mine() const noexcept {
    return impl_->runner().load(std::memory_order_relaxed) == std::this_thread::get_id() ||
           impl_->inbox().users().in_task();
}

// A poller that ends takes what came before it said so.
void Lane::check_taken(std::atomic<bool>& has_begun) const {
    if (impl_->inbox().users().is_left() && !has_begun.exchange(true))
        throw Error(Errc::invalid_argument, "lane", "the poller that drove it has ended",
                    "keep the context and its pollers until all calls have returned");
    const bool polls_others = LaneDriver::of_thread() != nullptr;  // and goes on with them
    if (polls_others || impl_->runner().load() != std::thread::id{} ||
        !impl_->inbox().users().was_here())
        return;
    // It may have been handed to another thread, which begins soon.
    for (const Deadline limit = Deadline::after(kHandedOver); !has_begun && !limit.passed();)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!has_begun.exchange(true))
        throw Error(Errc::would_deadlock, "lane",
                    "a thread waits for a task of it, and no other thread polls it",
                    "call the function itself where the lane is this thread's own");
}

int Lane::descriptor() const noexcept { return impl_->descriptor(); }
std::size_t Lane::connections() const noexcept { return impl_->queue().users(); }

}  // namespace verbatim

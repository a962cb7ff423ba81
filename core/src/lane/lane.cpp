// The public face of a lane: the thread check, and work of other threads.
#include <thread>
#include <utility>

#include "lane_impl.hpp"

namespace verbatim {

Lane::Lane(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

std::size_t Lane::poll() noexcept {
    const auto guard = impl_->enter();
    return impl_->poll();
}

bool Lane::wait(Deadline deadline) noexcept {
    const auto guard = impl_->enter();
    const std::uint64_t before = impl_->events();
    for (unsigned round = 0; !impl_->in_handler(); ++round) {
        (void)impl_->poll();
        if (impl_->events() != before) return true;
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
        impl_->inbox().push(*task);
    } catch (...) {
        task->drop(*task);
        throw;
    }
}

bool Lane::is_mine() const noexcept {
    return impl_->runner().load(std::memory_order_relaxed) == std::this_thread::get_id();
}

int Lane::descriptor() const noexcept { return impl_->descriptor(); }
std::size_t Lane::connections() const noexcept { return impl_->queue().users(); }

}  // namespace verbatim

// Polling a lane, and its members.
#include "lane_impl.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace verbatim {
namespace {

// A system call costs as much as several polls, and so does reading the clock; a peer's end may
// wait.
constexpr std::chrono::microseconds kLookEvery{50};
constexpr unsigned kPollsPerClock = 64;

}  // namespace

Lane::Impl::Impl(std::shared_ptr<void> resources, Device& device, const Config::LaneSection& config)
    : resources_(std::move(resources)),
      config_(config),
      queue_(device, config.completions),
      polled_(config.hot) {
    waits_.add(queue_.channel().file(), nullptr);
    waits_.add(inbox_.bell(), nullptr);
}

void Lane::Impl::join(LaneMember& member, int socket) {
    polled_.reserve(members_ + 1);
    ending_.reserve(members_ + 1);
    waits_.add(socket, &member);
    ++members_;
    polled_.add(member);
}

void Lane::Impl::leave(LaneMember& member, int socket) noexcept {
    waits_.remove(socket);
    polled_.remove(member);
    std::erase(ending_, &member);
    --members_;
}

std::size_t Lane::Impl::poll() noexcept {
    const std::size_t happened = poll_once();
    events_ += happened;
    return happened;
}

std::size_t Lane::Impl::poll_once() noexcept {
    if (in_handler_) [[unlikely]]
        return 0;
    // Tasks may do what handlers may not.
    std::size_t happened = inbox_.take();
    if (!stalled_.empty()) [[unlikely]]
        retry_stalled();
    const InHandler inside(*this);
    happened += queue_.poll();
    if (queue_.has_news()) [[unlikely]] {
        attend();
        ++happened;
    }
    happened += polled_.look(++polls_);
    if (polls_ % kPollsPerClock == 0) happened += look_seldom();
    if (!ending_.empty()) [[unlikely]]
        look_at_ending();
    return happened;
}

void Lane::Impl::attend() noexcept {
    for (QueueUser* user : queue_.take_news()) static_cast<LaneMember*>(user->owner())->take_news();
}

void Lane::Impl::await_end(LaneMember& member) noexcept {
    if (std::find(ending_.begin(), ending_.end(), &member) == ending_.end())
        ending_.push_back(&member);
}

void Lane::Impl::end_awaited(LaneMember& member) noexcept { std::erase(ending_, &member); }

// Owners may leave the list, and the lane, while they are asked.
void Lane::Impl::look_at_ending() noexcept {
    for (std::size_t i = ending_.size(); i-- != 0;) {
        if (i >= ending_.size()) continue;
        const MemberEvents& events = ending_[i]->events();
        if (events.ending != nullptr) events.ending(events.owner);
    }
}

// Items that find no room again come back to the list.
void Lane::Impl::retry_stalled() noexcept {
    retried_.swap(stalled_);
    for (const Stalled& one : retried_) one.item->take(*one.item);
    retried_.clear();
}

void Lane::Impl::end_hosted(const void* connection) noexcept {
    const auto at = std::find_if(hosted_.begin(), hosted_.end(),
                                 [&](const auto& one) { return one.get() == connection; });
    if (at == hosted_.end()) return;
    const std::shared_ptr<void> ended = std::move(*at);
    hosted_.erase(at);
}

void Lane::Impl::end_all_hosted() noexcept {
    while (!hosted_.empty()) {
        const std::shared_ptr<void> one = std::move(hosted_.back());
        hosted_.pop_back();
    }
}

std::size_t Lane::Impl::look_seldom() noexcept {
    const auto now = Clock::now();
    if (now - looked_ < kLookEvery) return 0;
    looked_ = now;
    std::erase_if(lingering_, [](const Lingering& one) { return one.member->held() == 0; });
    return take_sockets(0);
}

std::size_t Lane::Impl::take_sockets(int milliseconds) noexcept {
    return waits_.wait(milliseconds, [this](void* key) {
        if (key == nullptr) {
            waits_.wake_after(std::chrono::milliseconds(0));
            inbox_.quiet();
            return queue_.take_events();
        }
        ++events_;
        const MemberEvents& events = static_cast<LaneMember*>(key)->events();
        if (events.socket != nullptr) events.socket(events.owner);
    });
}

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

bool Lane::is_mine() const noexcept { return impl_->runner() == std::this_thread::get_id(); }

int Lane::descriptor() const noexcept { return impl_->descriptor(); }
std::size_t Lane::connections() const noexcept { return impl_->members(); }

}  // namespace verbatim

// Polling a lane, and its members.
#include "lane_impl.hpp"

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
}

void Lane::Impl::join(LaneMember& member, int socket) {
    polled_.reserve(members_ + 1);
    waits_.add(socket, &member);
    ++members_;
    polled_.add(member);
}

void Lane::Impl::leave(LaneMember& member, int socket) noexcept {
    waits_.remove(socket);
    polled_.remove(member);
    --members_;
}

std::size_t Lane::Impl::poll() noexcept {
    if (in_handler_) [[unlikely]]
        return 0;
    const InHandler inside(*this);
    std::size_t happened = queue_.poll();
    if (queue_.has_news()) [[unlikely]]
        attend();
    happened += polled_.look(++polls_);
    if (polls_ % kPollsPerClock == 0) happened += look_seldom();
    if (!deferred_.empty()) [[unlikely]]
        deferred_.clear();
    return happened;
}

void Lane::Impl::attend() noexcept {
    for (QueueUser* user : queue_.take_news()) static_cast<LaneMember*>(user->owner())->take_news();
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
            return queue_.take_events();
        }
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
    for (unsigned round = 0; !impl_->in_handler(); ++round) {
        if (impl_->poll() != 0) return true;
        if (deadline.passed(round)) return false;
        impl_->pause(round, deadline);
    }
    return false;
}

bool Lane::prepare_to_sleep() noexcept {
    const auto guard = impl_->enter();
    return impl_->prepare_to_sleep();
}

int Lane::descriptor() const noexcept { return impl_->descriptor(); }
std::size_t Lane::connections() const noexcept { return impl_->members(); }

}  // namespace verbatim

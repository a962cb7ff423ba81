// Polling a lane, and its members.
#include "lane_impl.hpp"

#include <sched.h>

#include <utility>

#include "device_events.hpp"

namespace verbatim {
namespace {

// Reading the clock costs as much as several polls.
constexpr unsigned kPollsPerClock = 64;

}  // namespace

Lane::Impl::Impl(LaneResources resources, const Config::LaneSection& config)
    : resources_(std::move(resources)),
      queue_(resources_.device, config.completions),
      polled_(config.hot, one_thread_),
      patience_(config),
      kept_(resources_.quarantine),
      seldom_(resources_.idle_timeout) {
    waits_.add(queue_.channel().file(), nullptr);
    waits_.add(inbox_.bell(), nullptr);
    if (resources_.events.file() >= 0) waits_.add(resources_.events.file(), &resources_.events);
}

// Others keep the lane. Each has a deadline.
Lane::Impl::~Impl() {
    while (kept_.has_closing()) {
        (void)queue_.poll();
        (void)take_sockets(0);
        (void)pending_.look();
        sched_yield();
    }
}

void Lane::Impl::join(LaneMember& member, int socket) {
    polled_.reserve(queue_.users());
    polled_.reserve(*member.polling.note);
    pending_.expect(queue_.users());
    waits_.add(socket, &member);
    polled_.add(member);
}

void Lane::Impl::leave(LaneMember& member, int socket) noexcept {
    waits_.remove(socket);
    polled_.leave(member);
    pending_.remove(member);
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
        stalled_.retry();
    const InHandler inside(*this);
    happened += queue_.poll();
    if (queue_.has_news()) [[unlikely]] {
        for (QueueUser* user : queue_.take_news())
            if (void* const owner = user->owner()) static_cast<LaneMember*>(owner)->take_news();
        ++happened;
    }
    happened += polled_.look(++polls_);
    if (polls_ % kPollsPerClock == 1) happened += look_seldom();
    if (!pending_.empty()) [[unlikely]]
        happened += pending_.look();
    return happened;
}

std::size_t Lane::Impl::look_seldom() noexcept {
    const auto now = Clock::now();
    if (!seldom_.sockets_are_due(now)) return 0;
    look_for_idle(now);
    inbox_.users().is_here();
    kept_.sweep();
    return take_sockets(0);
}

void Lane::Impl::look_for_idle(Clock::time_point now) noexcept {
    if (!seldom_.idle_is_due(now)) [[likely]]
        return;
    for (QueueUser* const user : queue_.all_users()) {
        auto* const member = user == nullptr ? nullptr : static_cast<LaneMember*>(user->owner());
        if (member == nullptr || !member->is_idle(now, seldom_.idle_timeout())) continue;
        const MemberEvents& events = member->events();
        if (events.idle != nullptr) events.idle(events.owner);
    }
}

std::size_t Lane::Impl::take_sockets(int milliseconds) noexcept {
    return waits_.wait(milliseconds, [this](void* key) {
        if (key == nullptr) {
            waits_.wake_after(std::chrono::milliseconds(0));
            inbox_.quiet();
            kept_.sweep();
            look_for_idle(Clock::now());
            return queue_.take_events();
        }
        if (key == &resources_.events) return resources_.events.take();
        ++events_;
        const MemberEvents& events = static_cast<LaneMember*>(key)->events();
        if (events.socket != nullptr) events.socket(events.owner);
    });
}

}  // namespace verbatim

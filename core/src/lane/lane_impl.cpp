// Polling a lane, and its members.
#include "lane_impl.hpp"

#include <sched.h>

#include <utility>

#include "device_events.hpp"

namespace verbatim {
namespace {

// Reading the clock costs as much as several polls.
constexpr unsigned kPollsPerClock = 64;

// Requests count, too: one-sided operations of this side are some. What has arrived and waits is no
// silence. Requests that nobody asked a completion of retire with one more, which is no activity.
bool is_idle(LaneMember& member, Clock::time_point now, std::chrono::milliseconds timeout) {
    SendPath& path = member.path();
    MessageRing& ring = member.ring();
    const auto activity = [&] {
        return ring.sent() + ring.receiver().position() + path.accepted();
    };
    if (member.has_ended() || !member.polling.idle.is_idle(activity(), now, timeout)) return false;
    if (!ring.has_posted_all() || member.held() != 0 || ring.receiver().ready()) return false;
    if (path.retired() == path.accepted()) return true;
    (void)path.signal_last();
    member.polling.idle.overlook(activity());
    return false;
}

void look_for_idle(const LaneQueue& queue, SeldomLooks& seldom, Clock::time_point now) noexcept {
    if (!seldom.idle_is_due(now)) [[likely]]
        return;
    for (const QueueUser* const user : queue.all_users()) {
        auto* const member = user == nullptr ? nullptr : static_cast<LaneMember*>(user->owner());
        if (member == nullptr || !is_idle(*member, now, seldom.idle_timeout())) continue;
        const MemberEvents& events = member->events();
        if (events.idle != nullptr) events.idle(events.owner);
    }
}

}  // namespace

Lane::Impl::Impl(LaneResources resources, const Config::LaneSection& config)
    : resources_(std::move(resources)),
      queue_(resources_.device, config.completions),
      polled_(config.hot, one_thread_),
      patience_(config),
      kept_(resources_.quarantine),
      telemetry_(*resources_.telemetry),
      counts_{.id = telemetry_.id()},
      seldom_(resources_.idle_timeout) {
    waits_.add(queue_.channel().file(), &queue_);
    waits_.add(inbox_.bell(), nullptr);
    if (resources_.events.file() >= 0) waits_.add(resources_.events.file(), &resources_.events);
}

// Others keep the lane. Each has a deadline.
Lane::Impl::~Impl() {
    while (kept_.has_closing() && !polled_.is_inherited()) {
        queue_.poll();
        (void)take_sockets(0);
        (void)pending_.look();
        sched_yield();
    }
}

void Lane::Impl::join(LaneMember& member, int socket) {
    polled_.reserve(queue_.users());
    polled_.reserve(*member.polling.note);
    pending_.expect(queue_.users());
    telemetry_.expect();
    waits_.add(socket, &member);
    telemetry_.add(member.telemetry);
    polled_.add(member);
}

void Lane::Impl::leave(LaneMember& member, int socket, bool moves) noexcept {
    telemetry_.leave(member.telemetry, moves);
    waits_.remove(socket);
    polled_.leave(member);
    pending_.remove(member);
}

std::size_t Lane::Impl::poll() noexcept {
    const std::size_t happened = poll_once();
    counts_.events += happened;
    return happened;
}

std::size_t Lane::Impl::poll_once() noexcept {
    if (in_handler_ || polled_.is_inherited()) [[unlikely]]
        return 0;
    // Tasks may do what handlers may not.
    std::size_t happened = inbox_.take();
    if (!stalled_.empty()) [[unlikely]]
        stalled_.retry();
    const InHandler inside(*this);
    queue_.poll();
    if (queue_.has_news()) [[unlikely]] {
        for (QueueUser* user : queue_.take_news())
            if (void* const owner = user->owner()) static_cast<LaneMember*>(owner)->take_news();
        ++happened;
    }
    happened += polled_.look(++counts_.polls);
    if (counts_.polls % kPollsPerClock == 1) happened += look_seldom();
    if (!pending_.empty()) [[unlikely]]
        happened += pending_.look();
    return happened + queue_.take_count();
}

std::size_t Lane::Impl::look_seldom() noexcept {
    const auto now = Clock::now();
    if (!seldom_.sockets_are_due(now)) return 0;
    look_for_idle(queue_, seldom_, now);
    inbox_.users().is_here();
    kept_.sweep();
    if (telemetry_.is_due(now)) {
        polled_.note_all(counts_, queue_.users());
        telemetry_.begin_pass(counts_);
    }
    telemetry_.go_on();
    return take_sockets(0);
}

std::size_t Lane::Impl::take_sockets(int milliseconds) noexcept {
    return waits_.wait(milliseconds, [this](void* key) {
        if (key == nullptr) {
            waits_.wake_after(std::chrono::milliseconds(0));
            inbox_.quiet();
            kept_.sweep();
            return look_for_idle(queue_, seldom_, Clock::now());
        }
        if (key == &queue_) return queue_.take_events();
        if (key == &resources_.events) return resources_.events.take();
        ++counts_.events;
        const MemberEvents& events = static_cast<LaneMember*>(key)->events();
        if (events.socket != nullptr) events.socket(events.owner);
    });
}

}  // namespace verbatim

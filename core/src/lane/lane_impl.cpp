// Polling a lane, and its members.
#include "lane_impl.hpp"

#include <sched.h>

#include <utility>

#include "device_events.hpp"

namespace verbatim {
namespace {

// A system call costs as much as several polls, and so does reading the clock; a peer's end may
// wait.
constexpr std::chrono::microseconds kLookEvery{50};
constexpr unsigned kPollsPerClock = 64;

}  // namespace

Lane::Impl::Impl(LaneResources resources, const Config::LaneSection& config)
    : resources_(std::move(resources)),
      queue_(resources_.device, config.completions),
      polled_(config.hot, one_thread_),
      patience_(config),
      kept_(resources_.quarantine),
      telemetry_(*resources_.telemetry),
      counts_{.id = telemetry_.id()} {
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
    happened += polled_.look(++counts_.polls);
    if (counts_.polls % kPollsPerClock == 1) happened += look_seldom();
    if (!pending_.empty()) [[unlikely]]
        happened += pending_.look();
    return happened;
}

std::size_t Lane::Impl::look_seldom() noexcept {
    const auto now = Clock::now();
    if (now - looked_ < kLookEvery) return 0;
    looked_ = now;
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
            return queue_.take_events();
        }
        if (key == &resources_.events) return resources_.events.take();
        ++counts_.events;
        const MemberEvents& events = static_cast<LaneMember*>(key)->events();
        if (events.socket != nullptr) events.socket(events.owner);
    });
}

}  // namespace verbatim

// The loop of the engine thread.
#include "event_thread.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

#include "../../host/own_threads.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::uint64_t kWakeNumber = 0;
constexpr std::size_t kEventsPerWait = 64;

[[noreturn]] void fail_event_thread(const char* step, int cause) {
    throw Error(Errc::device_error, "software NIC, thread of the tcp port",
                std::string(step) + ": " + errno_text(cause),
                "raise the limits of open files and processes (ulimit -n, ulimit -u)");
}

epoll_event event_of(std::uint32_t events, std::uint64_t number) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    return event;
}

}  // namespace

EventThread::~EventThread() {
    if (generation_ != fork_generation() || !started_) return;  // the thread stayed in the parent
    stop_.store(true);
    wake();
    pthread_join(thread_, nullptr);
}

// Under mutex_.
void EventThread::start() {
    if (started_) return;
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) fail_event_thread("epoll_create1", errno);
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) fail_event_thread("eventfd", errno);
    epoll_event event = event_of(EPOLLIN, kWakeNumber);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
        fail_event_thread("epoll_ctl", errno);
    ready_.reserve(kEventsPerWait);
    const int refused = start_own_thread(thread_, entry, this, Faults::blocked);
    if (refused != 0) fail_event_thread("pthread_create", refused);
    started_ = true;
}

std::uint64_t EventThread::add(Handler& handler, bool beats) {
    const std::lock_guard lock(mutex_);
    start();
    handlers_.emplace(++last_, Entry{&handler, true, beats});
    if (beats) beating_.store(true, std::memory_order_relaxed);
    ticking_.store(true, std::memory_order_relaxed);
    wake();
    return last_;
}

void EventThread::remove(std::uint64_t handler) noexcept {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    const std::lock_guard lock(mutex_);
    handlers_.erase(handler);
}

void EventThread::watch(int fd, std::uint64_t handler, bool once) {
    epoll_event event = event_of(EPOLLIN | EPOLLRDHUP | (once ? EPOLLONESHOT : 0U), handler);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        fail_event_thread("epoll_ctl", errno);
}

void EventThread::forget(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void EventThread::watch_again(int fd, std::uint64_t handler, bool writable) noexcept {
    epoll_event event =
        event_of(EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (writable ? EPOLLOUT : 0U), handler);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventThread::wake() noexcept {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    if (write(wake_.get(), &one, sizeof one) < 0) return;
}

void* EventThread::entry(void* self) {
    const OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-tcp");
    static_cast<EventThread*>(self)->run();
    return nullptr;
}

void EventThread::run() {
    while (!stop_.load()) {
        wait();
        serve();
    }
}

// Stores the numbers of those that are ready.
void EventThread::wait() noexcept {
    std::array<epoll_event, kEventsPerWait> events;
    const int timeout = ticking_.load()                            ? kTickMs
                        : beating_.load(std::memory_order_relaxed) ? kBeatMs
                                                                   : -1;
    int count = 0;
    {
        const AtRest rest;
        count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    }
    ready_.clear();
    for (int i = 0; i < count; ++i) {
        const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
        std::uint64_t unused;
        if (number != kWakeNumber)
            ready_.push_back(number);
        else if (read(wake_.get(), &unused, sizeof unused) < 0)
            continue;
    }
}

void EventThread::serve() noexcept {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t number : ready_) {
        const auto found = handlers_.find(number);
        if (found == handlers_.end()) continue;
        found->second.ticks = found->second.handler->ready();
        if (found->second.ticks) ticking_.store(true, std::memory_order_relaxed);
    }
    const auto now = std::chrono::steady_clock::now();
    if (beating_.load(std::memory_order_relaxed) && now >= next_beat_) {
        next_beat_ = now + std::chrono::milliseconds(kBeatMs);
        beat_all();
    }
    if (!ticking_.load(std::memory_order_relaxed) || now < next_tick_) return;
    next_tick_ = now + std::chrono::milliseconds(kTickMs);
    tick_all();
}

// Under mutex_. Taken back first: who calls meanwhile is heard.
void EventThread::tick_all() noexcept {
    ticking_.store(false);
    bool ticking = false;
    for (auto& [number, entry] : handlers_) {
        if (entry.ticks || entry.handler->wants_ticks()) entry.ticks = entry.handler->tick();
        ticking |= entry.ticks;
    }
    if (ticking) ticking_.store(true);
}

// Under mutex_.
void EventThread::beat_all() noexcept {
    bool beating = false;
    for (auto& [number, entry] : handlers_) {
        if (entry.beats) entry.handler->beat();
        beating |= entry.beats;
    }
    beating_.store(beating, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic

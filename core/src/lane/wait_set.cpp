// The wait set is an epoll instance.
#include "wait_set.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {

WaitSet::WaitSet()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    if (!epoll_ || !timer_)
        throw Error(Errc::device_error, "lane", "no descriptor to wait with: " + errno_text(errno),
                    "raise the limit: ulimit -n");
    add(timer_.get(), nullptr);
}

// Setting a timer forgets that it has expired. One that fires earlier than wanted is left: its
// fires are few, and sleeps may be many.
void WaitSet::wake_after(std::chrono::milliseconds time) noexcept {
    if (!fires_at_ && time.count() == 0) return;
    if (time.count() == 0) {
        fires_at_.reset();
    } else {
        const Clock::time_point now = Clock::now(), then = now + time;
        if (fires_at_ && now < *fires_at_ && *fires_at_ <= then) return;
        fires_at_ = then;
    }
    itimerspec when{};
    when.it_value.tv_sec = time.count() / 1000;
    when.it_value.tv_nsec = time.count() % 1000 * 1'000'000;
    (void)timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void WaitSet::add(int file, void* key) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.ptr = key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, file, &event) != 0)
        throw Error(Errc::out_of_memory, "lane",
                    "it cannot wait for one more descriptor: " + errno_text(errno),
                    "raise fs.epoll.max_user_watches (sysctl)");
}

void WaitSet::remove(int file) noexcept {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, file, nullptr);
}

std::size_t WaitSet::take(int milliseconds, Batch& batch) noexcept {
    epoll_event events[Batch::kMost];
    const int count =
        epoll_wait(epoll_.get(), events, static_cast<int>(Batch::kMost), milliseconds);
    for (int i = 0; i < count; ++i) batch.keys[i] = events[i].data.ptr;
    return count < 0 ? 0 : static_cast<std::size_t>(count);
}

}  // namespace verbatim

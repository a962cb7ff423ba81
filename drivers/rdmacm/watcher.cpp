// epoll, and a counter that wakes it.
#include "watcher.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../softnic/host/own_threads.hpp"

namespace verbatim::rdmacm {
namespace {

constexpr std::uint64_t kBell = ~std::uint64_t{0};
// While the process has no descriptors left, listeners are looked at this often.
constexpr int kNoDescriptorsRetryMs = 50;

epoll_event interest(std::uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    return event;
}

[[noreturn]] void fail_start(const char* step, int cause) {
    throw Error(Errc::device_error, "connection manager",
                std::string(step) + ": " + std::strerror(cause),
                "raise the limits of open files and processes (ulimit -n, ulimit -u)");
}

}  // namespace

Watcher::Watcher(WatcherService& service)
    : service_(service),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!epoll_ || !bell_ || add(bell_, kBell) != 0) fail_start("epoll", errno);
}

void Watcher::start() {
    if (started_) return;
    pthread_t thread;
    const int refused = softnic::start_own_thread(thread, entry, this, softnic::Faults::blocked);
    if (refused != 0) fail_start("pthread_create", refused);
    pthread_detach(thread);
    started_ = true;
}

int Watcher::add(const softnic::Descriptor& socket, std::uint64_t key) noexcept {
    epoll_event event = interest(key);
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0 ? 0 : errno;
}

void Watcher::rename(const softnic::Descriptor& socket, std::uint64_t key) noexcept {
    epoll_event event = interest(key);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event);
}

void Watcher::remove(softnic::Descriptor& socket) noexcept {
    if (!socket) return;
    // By hand: a program that is being forked may hold a copy for a moment.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
    socket.close();
}

void Watcher::wake() noexcept {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    static_cast<void>(!write(bell_.get(), &one, sizeof one));
}

void* Watcher::entry(void* self) {
    const softnic::OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-cm");
    static_cast<Watcher*>(self)->run();
}

void Watcher::run() {
    for (;;) try {
            std::array<epoll_event, 64> events;
            const int timeout = service_.meet_deadlines();
            int ready;
            {
                const softnic::AtRest rest;
                ready = epoll_wait(epoll_.get(), events.data(), events.size(), timeout);
            }
            bool short_of_descriptors = false;
            for (int i = 0; i < ready; ++i) {
                const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
                std::uint64_t count;
                if (key == kBell)
                    static_cast<void>(!read(bell_.get(), &count, sizeof count));
                else
                    short_of_descriptors |= !service_.serve(key);
            }
            if (short_of_descriptors) poll(nullptr, 0, kNoDescriptorsRetryMs);
        } catch (const std::exception& error) {
            log::error("connection manager: {}", error.what());
        }
}

}  // namespace verbatim::rdmacm

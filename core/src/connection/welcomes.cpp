// Threads that shake hands.
#include "welcomes.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <verbatim/driver/log.hpp>

namespace verbatim {

Welcomes::Welcomes() : ended_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!ended_)
        throw Error(Errc::device_error, "listener", "the process may open no more descriptors",
                    "raise the limit: ulimit -n");
}

Welcomes::~Welcomes() {
    ending_ = true;
    for (One& one : running_) shutdown(one.socket.get(), SHUT_RDWR);
    for (One& one : running_) one.thread.join();
}

void Welcomes::start(std::shared_ptr<Context::Impl> context, Place place, SideChannel channel,
                     const Hello& hello) {
    const std::string name = channel.name();
    One& one = running_.emplace_back(std::move(place));
    one.socket = Descriptor(fcntl(channel.socket().get(), F_DUPFD_CLOEXEC, 0));
    try {
        one.thread = std::thread([this, &one, hello, context = std::move(context),
                                  moved = std::move(channel)]() mutable {
            run(one, std::move(context), std::move(moved), hello);
        });
    } catch (const std::system_error& error) {
        running_.pop_back();
        log::warn("refused {}: no thread for the handshake ({})", name, error.what());
    }
}

void Welcomes::run(One& one, std::shared_ptr<Context::Impl> context, SideChannel channel,
                   const Hello& hello) noexcept {
    const std::string name = channel.name();
    std::optional<Meeting> meeting;
    try {
        meeting = shake_hands(std::move(context),
                              {one.place.lane->queue().handle(), one.place.lane->mode()},
                              std::move(channel), hello);
    } catch (const Error& error) {  // the caller has been told
        if (!ending_) log::warn("refused {}: {}", name, error.cause());
    } catch (const std::exception& error) {
        log::warn("refused {}: {}", name, error.what());
    }
    {
        const std::lock_guard lock(mutex_);
        one.meeting = std::move(meeting);
        one.is_done = true;
    }
    eventfd_write(ended_.get(), 1);
}

Clock::time_point Welcomes::may_start(const Lane::Impl* lane) noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    auto when = Clock::time_point::min();
    for (const One& one : running_) {
        if (lane != nullptr && one.place.lane.get() != lane) continue;
        if (++count == kMost || (lane != nullptr && one.meeting)) return Clock::time_point::max();
        if (lane != nullptr && !one.is_done) when = std::max(when, one.begun + kHeadStart);
    }
    return when;
}

std::optional<Welcomes::Ready> Welcomes::take(const Lane::Impl* lane) {
    eventfd_t count = 0;
    eventfd_read(ended_.get(), &count);
    for (auto it = running_.begin(); it != running_.end();) {
        std::unique_lock lock(mutex_);
        if (!it->is_done || (it->meeting && lane != nullptr && it->place.lane.get() != lane)) {
            ++it;
            continue;
        }
        lock.unlock();
        it->thread.join();
        std::optional<Ready> ready;
        if (it->meeting) ready.emplace(Ready{std::move(it->place), std::move(*it->meeting)});
        it = running_.erase(it);
        if (!ready) continue;
        eventfd_write(ended_.get(), 1);  // there may be more
        return ready;
    }
    return std::nullopt;
}

}  // namespace verbatim

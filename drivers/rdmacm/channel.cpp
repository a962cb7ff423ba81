// The pipe beside the queue.
#include "channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <verbatim/driver/error.hpp>

namespace verbatim::rdmacm {

Channel::Channel() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
        programs_end_ = ends[0];
        handed_out_.emplace(programs_end_);
        writing_ = softnic::Descriptor(ends[1]);
        // Our own: the program may close its number while a thread waits here.
        reading_ = softnic::Descriptor(fcntl(programs_end_, F_DUPFD_CLOEXEC, 0));
        if (reading_) return;
        close(programs_end_);
    }
    throw Error(Errc::device_error, "connection manager", "no file descriptor is left for it",
                "raise the limit of open files (ulimit -n)");
}

void Channel::push(const Event& event) {
    events_.push_back(event);
    if (events_.size() == 1) signal();
}

Event Channel::pop() {
    Event event = std::move(events_.front());
    events_.pop_front();
    if (events_.empty()) unsignal();
    return event;
}

std::vector<Event> Channel::take_events_of(std::uint32_t owner) {
    if (events_.empty()) return {};
    const auto others = std::stable_partition(
        events_.begin(), events_.end(), [&](const Event& event) { return event.owner != owner; });
    std::vector<Event> taken(others, events_.end());
    events_.erase(others, events_.end());
    if (events_.empty()) unsignal();
    return taken;
}

int Channel::wait() const {
    pollfd entry{reading_.get(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) {
        if ((fcntl(reading_.get(), F_GETFL) & O_NONBLOCK) != 0) return EAGAIN;
        if (poll(&entry, 1, -1) < 0) return errno;
    }
    return 0;
}

void Channel::signal() noexcept {
    const char byte = 0;
    // An empty pipe has room.
    static_cast<void>(!write(writing_.get(), &byte, 1));
}

// Only reads what is there: the program could have read it itself.
void Channel::unsignal() noexcept {
    char byte;
    pollfd entry{reading_.get(), POLLIN, 0};
    if (poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0)
        static_cast<void>(!read(reading_.get(), &byte, 1));
}

}  // namespace verbatim::rdmacm

// The counter is an eventfd that is read one by one.
#include "completion_channel.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbatim::softnic {

CompletionChannel::CompletionChannel()
    : counter_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    if (!counter_)
        throw Error(Errc::device_error, "software NIC completion channel", std::strerror(errno),
                    "raise the limit of open files (ulimit -n)");
}

void CompletionChannel::add(Source& source) {
    const std::lock_guard lock(mutex_);
    sources_.push_back(&source);
}

void CompletionChannel::remove(const Source& source) {
    const std::lock_guard lock(mutex_);
    std::erase(sources_, &source);
}

void CompletionChannel::raise(Source& source) noexcept {
    source.events.fetch_add(1, std::memory_order_release);
    const std::uint64_t one = 1;
    // It fails only at a count that nobody reaches, and can be read then as well.
    if (write(counter_.get(), &one, sizeof one) < 0) return;
}

CompletionQueueHandle* CompletionChannel::take_event() {
    const std::lock_guard lock(mutex_);
    std::uint64_t one = 0;
    // Events of queues that were destroyed meanwhile are counted but nobody's.
    while (read(counter_.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one)) {
        for (auto at = sources_.begin(); at != sources_.end(); ++at) {
            Source& source = **at;
            if (source.events.load(std::memory_order_acquire) == 0) continue;
            source.events.fetch_sub(1, std::memory_order_relaxed);
            std::rotate(at, at + 1, sources_.end());  // the others first, next time
            return source.queue;
        }
    }
    return nullptr;
}

}  // namespace verbatim::softnic

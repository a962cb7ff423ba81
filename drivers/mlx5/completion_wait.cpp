// The loop around arm().
#include <poll.h>

#include <cerrno>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/mlx5/completion_wait.hpp>

namespace verbatim::mlx5 {
namespace {

using Clock = std::chrono::steady_clock;

// False: the deadline passed, or the descriptor is none.
bool wait_readable(int file, Clock::time_point deadline) noexcept {
    for (;;) {
        const int left = milliseconds_until(deadline);
        if (left == 0) return false;
        pollfd entry{file, POLLIN, 0};
        const int ready = ::poll(&entry, 1, left);
        if (ready > 0) return (entry.revents & POLLIN) != 0;
        if (ready < 0 && errno != EINTR) return false;
    }
}

}  // namespace

std::size_t wait_and_poll(CompletionQueue& queue, CompletionChannelHandle& channel,
                          std::span<Completion> completions, std::chrono::milliseconds timeout,
                          Notify notify) {
    if (const std::size_t count = queue.poll(completions); count != 0) return count;
    const Clock::time_point deadline = Clock::now() + timeout;
    for (;;) {
        if (queue.arm(notify) != Errc::ok) return 0;
        if (const std::size_t count = queue.poll(completions); count != 0) return count;
        const bool event = wait_readable(channel.file(), deadline);
        // One by one: armings count events modulo 4, and after four at once the next one would look
        // like the last, which had its event already.
        if (event && channel.take_event() != nullptr) queue.count_event();
        if (const std::size_t count = queue.poll(completions); count != 0) return count;
        if (!event) return 0;
    }
}

}  // namespace verbatim::mlx5

// The fork handler and the list of descriptors that a forked child must close.
#include <verbatim/driver/descriptor.hpp>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace verbatim {
namespace {

// Never destroyed: objects with static storage may close descriptors at exit.
struct Registry {
    std::mutex mutex;
    std::vector<int> open;
};

Registry& registry() {
    static Registry* const instance = new Registry;
    return *instance;
}

void before_fork() {
    mapping_mutex().lock();
    registry().mutex.lock();
}
void after_fork_in_parent() {
    registry().mutex.unlock();
    mapping_mutex().unlock();
}
void after_fork_in_child() {
    for (const int fd : registry().open) ::close(fd);
    registry().open.clear();
    g_fork_generation.fetch_add(1, std::memory_order_relaxed);
    after_fork_in_parent();
}

void remember(int fd) {
    count_forks();
    const std::lock_guard lock(registry().mutex);
    registry().open.push_back(fd);
}

}  // namespace

void count_forks() {
    static const bool handlers =
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    static_cast<void>(handlers);
}

std::mutex& mapping_mutex() {
    static std::mutex* const instance = new std::mutex;
    return *instance;
}

Descriptor::Descriptor(int fd) : fd_(fd), generation_(fork_generation()) {
    if (fd >= 0) remember(fd);
}

void Descriptor::close() noexcept {
    const int fd = std::exchange(fd_, -1);
    if (fd < 0 || generation_ != fork_generation()) return;
    // Closed under the lock: a fork between the two steps would close a number that is not ours any
    // more.
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().open, fd);
    ::close(fd);
}

}  // namespace verbatim

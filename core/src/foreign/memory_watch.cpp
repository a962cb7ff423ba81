// The userfaultfd, and the thread that reads it.
#include "memory_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/log.hpp>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace verbatim {
namespace {

constexpr std::uint64_t kEvents =
    UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE;
// A thread that unmaps needs a core to go on after its event was read.
constexpr std::chrono::milliseconds kPatience{100};

void refuse_watch(const char* call) noexcept {
    log::warn(
        "memory outside of arenas is registered for each use, not cached ({}: {}); allow "
        "userfaultfd(2), as by another seccomp profile",
        call, errno_text(errno));
}

}  // namespace

// Never destroyed: its thread and the kernel use it until the process ends.
MemoryWatch* MemoryWatch::instance() noexcept {
    static MemoryWatch* current = nullptr;
    static std::uint64_t generation = ~std::uint64_t{0};
    // Not held while the process forks.
    const std::lock_guard lock(mapping_mutex());
    if (generation == fork_generation()) return current;
    generation = fork_generation();
    current = new (std::nothrow) MemoryWatch;
    if (current == nullptr || current->open()) return current;
    delete current;
    return current = nullptr;
}

bool MemoryWatch::open() noexcept {
    events_ = Descriptor(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    uffdio_api api{UFFD_API, kEvents, 0};
    if (!events_)
        refuse_watch("userfaultfd");
    else if (ioctl(events_.get(), UFFDIO_API, &api) != 0)
        refuse_watch("UFFDIO_API");
    else if (start())
        return true;
    else
        refuse_watch("pthread_create");
    return false;
}

// No handler of the program runs in that thread: it could unmap memory there.
bool MemoryWatch::start() noexcept {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    errno = pthread_create(&thread, nullptr, entry, this);
    const int refused = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused == 0) pthread_detach(thread);
    errno = refused;
    return refused == 0;
}

void MemoryWatch::attach(WatchedRanges& table) noexcept {
    const std::lock_guard lock(tables_mutex_);
    const auto free = std::find(std::begin(tables_), std::end(tables_), nullptr);
    if (free != std::end(tables_)) *free = &table;
}

void MemoryWatch::detach(WatchedRanges& table) noexcept {
    if (generation_ != fork_generation()) return;
    const std::lock_guard lock(tables_mutex_);
    std::replace(std::begin(tables_), std::end(tables_), &table,
                 static_cast<WatchedRanges*>(nullptr));
}

bool MemoryWatch::is_attached(const WatchedRanges& table) noexcept {
    const std::lock_guard lock(tables_mutex_);
    return std::find(std::begin(tables_), std::end(tables_), &table) != std::end(tables_);
}

bool MemoryWatch::watch(WatchedRanges& table, std::size_t slot, const PageRange& pages) noexcept {
    const std::lock_guard lock(control_);
    if (!is_attached(table) || !is_private(pages)) return false;
    table.put(slot, pages);
    if (ask(pages, UFFDIO_REGISTER_MODE_WP)) return true;
    table.drop(slot);
    return false;
}

void MemoryWatch::unwatch(WatchedRanges& table, std::size_t slot, const PageRange& pages) noexcept {
    if (generation_ != fork_generation()) return;
    const std::lock_guard lock(control_);
    // What lies at these addresses now may be watched by others, in their own way.
    const bool was_gone = table.is_gone(slot);
    table.drop(slot);
    if (!was_gone && !is_used(pages, table.identity(slot))) release(pages);
}

bool MemoryWatch::is_used(const PageRange& pages, const std::atomic<bool>* own) noexcept {
    const std::lock_guard lock(tables_mutex_);
    return std::any_of(std::begin(tables_), std::end(tables_), [&](const WatchedRanges* table) {
        return table != nullptr && table->uses(pages, own);
    });
}

bool MemoryWatch::ask(const PageRange& pages, std::uint64_t mode) const noexcept {
    uffdio_register wanted{{pages.first, pages.bytes()}, mode, 0};
    return ioctl(events_.get(), UFFDIO_REGISTER, &wanted) == 0;
}

void MemoryWatch::release(const PageRange& pages) const noexcept {
    uffdio_range range{pages.first, pages.bytes()};
    ioctl(events_.get(), UFFDIO_UNREGISTER, &range);
}

// Shared memory changes without an event: holes are punched in files, and shmdt() tells nothing.
// Minor faults are of such memory only, so the kernel says by a refusal that this is none.
bool MemoryWatch::is_private(const PageRange& pages) const noexcept {
    if (!ask(pages, UFFDIO_REGISTER_MODE_MINOR)) return true;
    release(pages);
    return false;
}

// Asked of no memory at all: the kernel looks first whether somebody changes mappings.
bool MemoryWatch::is_changing() const noexcept {
    uffdio_zeropage nothing{};
    return ioctl(events_.get(), UFFDIO_ZEROPAGE, &nothing) != 0 && errno == EAGAIN;
}

// A change is known to the kernel before its memory can be mapped by others, and until its event
// was read. reads_ was odd by then.
bool MemoryWatch::settle() const noexcept {
    const auto start = std::chrono::steady_clock::now();
    while (is_changing() || reads_.load() % 2 != 0) {
        if (std::chrono::steady_clock::now() - start > kPatience) return false;
        sched_yield();
    }
    return true;
}

void* MemoryWatch::entry(void* self) noexcept {
    pthread_setname_np(pthread_self(), "verbatim-watch");
    static_cast<MemoryWatch*>(self)->run();
    return nullptr;
}

// Bare system calls: what sanitizers put around those may allocate.
void MemoryWatch::run() noexcept {
    std::array<uffd_msg, 16> events;
    pollfd file{events_.get(), POLLIN, 0};
    while (true) {
        syscall(SYS_poll, &file, 1, -1);
        reads_.fetch_add(1);
        const long bytes = syscall(SYS_read, file.fd, events.data(), sizeof events);
        const std::size_t count =
            bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof(uffd_msg) : 0;
        for (std::size_t i = 0; i < count; ++i) take(events[i]);
        reads_.fetch_add(1);
    }
}

void MemoryWatch::take(const uffd_msg& event) noexcept {
    if (event.event == UFFD_EVENT_UNMAP || event.event == UFFD_EVENT_REMOVE)
        mark({event.arg.remove.start, event.arg.remove.end});
    // What lay at the new place is told of as unmapped.
    if (event.event == UFFD_EVENT_REMAP)
        mark({event.arg.remap.from, event.arg.remap.from + event.arg.remap.len});
}

void MemoryWatch::mark(const PageRange& pages) noexcept {
    const std::lock_guard lock(tables_mutex_);
    for (WatchedRanges* const table : tables_)
        if (table != nullptr) table->mark(pages);
}

}  // namespace verbatim

// The userfaultfd and the thread that reads it.
#include "doorbell_traps.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "../../softnic/host/own_threads.hpp"
#include "../../softqueue/page.hpp"
#include "prompt_thread.hpp"

namespace verbatim::uverbs {
namespace {

int control(int file, unsigned long request, void* argument) noexcept {
    // Not ioctl(), whose place this library has taken.
    return static_cast<int>(syscall(SYS_ioctl, file, request, argument));
}

}  // namespace

DoorbellTraps::~DoorbellTraps() {
    if (generation_ != softnic::fork_generation()) return;  // thread and traps stayed in the parent
    stop_.store(true);
    if (thread_) {
        const std::uint64_t one = 1;
        static_cast<void>(!::write(bell_.get(), &one, sizeof one));
        pthread_join(*thread_, nullptr);
    }
    // The descriptor's end is not enough: a child that somebody made without fork() may hold it.
    protect_all(false);
    for (const Range& range : ranges_) {
        uffdio_range pages{range.start, range.bytes};
        control(faults_.get(), UFFDIO_UNREGISTER, &pages);
    }
}

void DoorbellTraps::add(std::uintptr_t start, std::size_t bytes) noexcept try {
    const std::lock_guard lock(mutex_);
    const Range added{start, bytes};
    if (impossible_ || !open()) return;
    uffdio_register wanted{{added.start, added.bytes}, UFFDIO_REGISTER_MODE_WP, 0};
    if (control(faults_.get(), UFFDIO_REGISTER, &wanted) != 0)
        return give_up(fmt::format("UFFDIO_REGISTER: {}", std::strerror(errno)));
    // Pages that lie side by side, as those of one context do, are protected by one call.
    Range joined = added;
    std::erase_if(ranges_, [&](const Range& range) {
        const bool touches =
            range.start <= joined.start + joined.bytes && joined.start <= range.start + range.bytes;
        if (!touches) return false;
        const std::uintptr_t end = std::max(range.start + range.bytes, joined.start + joined.bytes);
        joined.start = std::min(range.start, joined.start);
        joined.bytes = end - joined.start;
        return true;
    });
    ranges_.push_back(joined);
    if (are_set()) protect(added, true);
    work_.store(true, std::memory_order_release);
} catch (const std::exception& error) {
    give_up(error.what());
}

// Under mutex_.
bool DoorbellTraps::open() noexcept {
    if (faults_) return true;
    faults_ = softnic::Descriptor(softnic::out_of_the_way(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY))));
    uffdio_api api{UFFD_API, UFFD_FEATURE_WP_HUGETLBFS_SHMEM, 0};
    if (!faults_)
        give_up(fmt::format("userfaultfd: {}", std::strerror(errno)));
    else if (control(faults_.get(), UFFDIO_API, &api) != 0)
        give_up(fmt::format("UFFDIO_API: {}, it takes Linux 5.19", std::strerror(errno)));
    else if (!start())
        give_up("there can be no thread for it");
    return !impossible_;
}

// Under mutex_.
bool DoorbellTraps::start() noexcept {
    bell_ = softnic::Descriptor(softnic::out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
    timer_ = softnic::Descriptor(
        softnic::out_of_the_way(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
    if (!bell_ || !timer_) return false;
    pthread_t thread;
    const int refused = softnic::start_own_thread(thread, entry, this, softnic::Faults::taken);
    if (refused != 0) return false;
    pthread_setname_np(thread, "verbatim-trap");
    thread_ = thread;
    return true;
}

void DoorbellTraps::forgo(const std::string& why) noexcept {
    const std::lock_guard lock(mutex_);
    give_up(why);
}

// Under mutex_. Stores that are trapped now are still read.
void DoorbellTraps::give_up(const std::string& why) noexcept {
    if (std::exchange(impossible_, true)) return;
    work_.store(false);
    protect_all(false);
    set_.store(false);
    log::info(
        "software NIC under rdma-core: doorbells cannot be trapped ({}); requests that are "
        "posted past libibverbs are looked for from time to time",
        why);
}

bool DoorbellTraps::set() noexcept {
    const std::lock_guard lock(mutex_);
    if (impossible_ || ranges_.empty()) return false;
    if (are_set()) return true;
    // Before they are: a thread that sees no trap would not lift it.
    set_.store(true);
    if (!protect_all(true)) give_up(fmt::format("UFFDIO_WRITEPROTECT: {}", std::strerror(errno)));
    return !impossible_ && !ranges_.empty();
}

void DoorbellTraps::lift() noexcept {
    if (!are_set()) return;
    const std::lock_guard lock(mutex_);
    if (!are_set()) return;
    protect_all(false);
    set_.store(false);
}

bool DoorbellTraps::protect(const Range& range, bool wanted) noexcept {
    uffdio_writeprotect change{{range.start, range.bytes},
                               wanted ? UFFDIO_WRITEPROTECT_MODE_WP : std::uint64_t{0}};
    return control(faults_.get(), UFFDIO_WRITEPROTECT, &change) == 0;
}

// Under mutex_. A range may have holes where the program has unmapped a page, and older kernels
// take one mapping at a time. False: what is mapped cannot be protected.
bool DoorbellTraps::protect_all(bool wanted) noexcept {
    bool good = true;
    for (std::size_t i = 0; i < ranges_.size();) {
        if (protect(ranges_[i], wanted)) {
            ++i;
            continue;
        }
        const Range broken = ranges_[i];
        ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(i));
        if (broken.bytes == softnic::kPageBytes) {
            good &= errno == ENOENT;
            wake(broken.start);
            continue;
        }
        for (std::size_t offset = 0; offset < broken.bytes; offset += softnic::kPageBytes)
            ranges_.push_back({broken.start + offset, softnic::kPageBytes});
    }
    return good;
}

void* DoorbellTraps::entry(void* self) {
    const softnic::OwnThread own;
    make_prompt();
    static_cast<DoorbellTraps*>(self)->run();
    return nullptr;
}

void DoorbellTraps::run() noexcept {
    while (!stop_.load()) {
        std::array<pollfd, 3> files{
            pollfd{faults_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}, {timer_.get(), POLLIN, 0}};
        int ready = 0;
        {
            // What poll() says may be lost: then it says so again.
            const softnic::AtRest rest;
            ready = poll(files.data(), files.size(), -1);
        }
        if (ready <= 0) continue;
        if (files[0].revents != 0 && read_traps()) hooks_.trapped(hooks_.context);
        std::uint64_t times = 0;
        if (files[2].revents == 0 || ::read(timer_.get(), &times, sizeof times) <= 0) continue;
        if (hooks_.watch(hooks_.context)) continue;
        set_timer(std::chrono::nanoseconds(0));
        watches_.store(false);
        // A caller that asked meanwhile has found it going on.
        if (hooks_.watch(hooks_.context)) watch();
    }
}

// A timer that goes on is cheaper than one that is set for each time: on a virtual machine each
// setting took some 20 us.
void DoorbellTraps::watch() noexcept {
    constexpr std::chrono::milliseconds kPeriod{1};
    if (!watches_.exchange(true)) set_timer(kPeriod);
}

void DoorbellTraps::set_timer(std::chrono::nanoseconds period) noexcept {
    const timespec time{0, static_cast<long>(period.count())};
    const itimerspec setting{time, time};
    timerfd_settime(timer_.get(), 0, &setting, nullptr);
}

bool DoorbellTraps::read_traps() noexcept {
    std::array<uffd_msg, 16> messages;
    const ssize_t bytes = ::read(faults_.get(), messages.data(), sizeof messages);
    if (bytes <= 0) return false;
    lift();
    // One that nobody protects any more: the traps were lifted, or its page unmapped, meanwhile.
    const auto count = static_cast<std::size_t>(bytes) / sizeof messages[0];
    for (std::size_t i = 0; i < count; ++i)
        wake(messages[i].arg.pagefault.address & ~(softnic::kPageBytes - 1));
    return true;
}

void DoorbellTraps::wake(std::uintptr_t address) noexcept {
    uffdio_range page{address, softnic::kPageBytes};
    control(faults_.get(), UFFDIO_WAKE, &page);
}

}  // namespace verbatim::uverbs

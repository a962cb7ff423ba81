// The list of an absent poller, and the pace of its looks.
#include "absent_poller.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

#include "../host/own_threads.hpp"
#include "absence.hpp"

namespace verbatim::softnic {
namespace {

constexpr int kFirstPace = 1, kSlowPace = 16, kSlowestPace = 100, kForEver = -1;
// Looks in vain, some seconds of them, after which the pace is the slowest.
constexpr std::uint32_t kManyLooks = 300;
constexpr int kRotated = 8;

[[noreturn]] void fail_absent_start(const char* step, int cause) {
    throw Error(Errc::device_error, "software NIC absent poller",
                fmt::format("{}: {}", step, std::strerror(cause)),
                "raise the limits of open files and processes (ulimit -n, ulimit -u)");
}

}  // namespace

AbsentPoller::AbsentPoller() : generation_(fork_generation()) {
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) fail_absent_start("eventfd", errno);
    const int refused = start_own_thread(thread_, entry, this, Faults::blocked);
    if (refused != 0) fail_absent_start("pthread_create", refused);
}

// The queue pairs are gone.
AbsentPoller::~AbsentPoller() {
    if (generation_ != fork_generation()) return;  // the thread stayed in the parent
    stop_.store(true, std::memory_order_release);
    wake();
    pthread_join(thread_, nullptr);
}

void AbsentPoller::wake() noexcept {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    if (write(wake_.get(), &one, sizeof one) < 0) return;
}

void AbsentPoller::open(Absence& one) noexcept {
    if (generation_ != fork_generation()) return;
    const std::lock_guard lock(mutex_);
    one.place_.store(Absence::Place::outside, std::memory_order_relaxed);
}

void AbsentPoller::close(Absence& one) noexcept {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    std::unique_lock lock(mutex_);
    const bool listed = one.place_.exchange(Absence::Place::closed) == Absence::Place::listed;
    looked_.wait(lock, [&] { return current_ != &one; });
    if (listed) remove(one);
    one.asked_ = false;
}

void AbsentPoller::enter(Absence& one, bool asked) noexcept {
    if (generation_ != fork_generation()) return;
    {
        const std::lock_guard lock(mutex_);
        const Absence::Place place = one.place_.load(std::memory_order_relaxed);
        if (place == Absence::Place::closed) return;
        one.asked_ |= asked;
        if (place == Absence::Place::outside) add(one);
        if (std::exchange(attentive_, true)) return;
    }
    wake();
}

// Under mutex_, as the next three. A walk that goes on does not come to it.
void AbsentPoller::add(Absence& one) noexcept {
    one.place_.store(Absence::Place::listed, std::memory_order_relaxed);
    one.begin();
    one.before_ = nullptr;
    one.after_ = first_;
    (first_ == nullptr ? last_ : first_->before_) = &one;
    first_ = &one;
}

// Nothing waits there, unless somebody left it just now and found the queue pair listed still.
void AbsentPoller::drop(Absence& one) noexcept {
    if (one.asked_) return;
    one.place_.store(Absence::Place::outside, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (one.waits())
        one.place_.store(Absence::Place::listed, std::memory_order_relaxed);
    else
        remove(one);
}

void AbsentPoller::remove(Absence& one) noexcept {
    (one.before_ == nullptr ? first_ : one.before_->after_) = one.after_;
    (one.after_ == nullptr ? last_ : one.after_->before_) = one.before_;
}

// Others come first next time: the way to a peer may be full before all have asked.
void AbsentPoller::rotate() noexcept {
    for (int left = kRotated; left != 0 && first_ != last_; --left) {
        Absence& one = *first_;
        remove(one);
        one.before_ = last_;
        one.after_ = nullptr;
        last_ = last_->after_ = &one;
    }
}

void* AbsentPoller::entry(void* self) {
    const OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-absent");
    static_cast<AbsentPoller*>(self)->run();
    return nullptr;
}

// A thread that is woken looks soon, but at once only for a peer, which has waited already.
void AbsentPoller::run() noexcept {
    pace_ms_ = kForEver;
    while (!stop_.load(std::memory_order_acquire)) {
        if (sleep()) {
            pace_ms_ = kFirstPace;
            vain_looks_ = 0;
            if (!anyone_asked()) continue;
        }
        look_at_all();
    }
}

// A long sleep is one that those who enter end. False: somebody entered just now.
bool AbsentPoller::lie_down() noexcept {
    const std::lock_guard lock(mutex_);
    if (pace_ms_ == kForEver && first_ != nullptr) return false;
    attentive_ = false;
    return true;
}

bool AbsentPoller::sleep() noexcept {
    const bool is_long = pace_ms_ == kForEver || pace_ms_ > kSlowPace;
    if (is_long && !lie_down()) return true;
    pollfd entry{wake_.get(), POLLIN, 0};
    int ready = 0;
    {
        const AtRest rest;
        ready = poll(&entry, 1, pace_ms_);
    }
    const std::lock_guard lock(mutex_);
    attentive_ = true;
    std::uint64_t count = 0;
    return ready > 0 && read(wake_.get(), &count, sizeof count) > 0;
}

bool AbsentPoller::anyone_asked() noexcept {
    const std::lock_guard lock(mutex_);
    for (const Absence* one = first_; one != nullptr; one = one->after_)
        if (one->asked_) return true;
    return false;
}

void AbsentPoller::look_at_all() noexcept {
    Found best = Found::nothing;
    std::unique_lock lock(mutex_);
    for (Absence* one = first_; one != nullptr;) {
        const Found found = look_at(*one, lock);
        best = std::max(best, found);
        Absence* const next = one->after_;
        if (found == Found::nothing && one->place_.load() == Absence::Place::listed) drop(*one);
        one = next;
    }
    rotate();
    set_pace(best, first_ == nullptr);
}

AbsentPoller::Found AbsentPoller::look_at(Absence& one,
                                          std::unique_lock<std::mutex>& lock) noexcept {
    const bool asked = std::exchange(one.asked_, false);
    current_ = &one;
    lock.unlock();
    const Found found = one.look(asked);
    lock.lock();
    current_ = nullptr;
    if (one.place_.load() == Absence::Place::closed) looked_.notify_all();
    return found;
}

// With nothing left it looks once more, so that a program which enters again and again pays for one
// call among many.
void AbsentPoller::set_pace(Found best, bool empty) noexcept {
    if (best != Found::waiting) vain_looks_ = 0;
    if (best == Found::effect)
        pace_ms_ = kFirstPace;
    else if (empty)
        pace_ms_ = pace_ms_ == kSlowPace ? kForEver : kSlowPace;
    else
        pace_ms_ = ++vain_looks_ > kManyLooks ? kSlowestPace : std::min(2 * pace_ms_, kSlowPace);
}

}  // namespace verbatim::softnic

// Attempts, one after the other.
#include "connector.hpp"

#include <signal.h>

#include <algorithm>
#include <system_error>

#include <verbatim/driver/log.hpp>

namespace verbatim::uverbs {
namespace {

// For an answer of a peer's control thread, which does nothing but answer.
constexpr std::chrono::milliseconds kAttemptTime{200};
// A peer is looked for this often while requests wait, and while none do.
constexpr std::chrono::milliseconds kBusyPause{8}, kIdlePause{16};

}  // namespace

Connector::~Connector() {
    if (generation_ != softnic::fork_generation()) return;  // the thread stayed in the parent
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        changed_.notify_all();
    }
    if (thread_) pthread_join(*thread_, nullptr);
}

void Connector::start_thread() {
    // The thread inherits this mask: no signal of the program is ever handled on it.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int refused = pthread_create(&thread, nullptr, entry, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0) throw std::system_error(refused, std::generic_category());
    thread_ = thread;
}

void Connector::add(softnic::QueuePair& pair, const QueuePairAddress& peer,
                    std::optional<std::chrono::nanoseconds> patience) {
    const std::lock_guard lock(mutex_);
    if (!thread_) start_thread();
    std::erase_if(jobs_, [&](const Job& job) { return job.pair == &pair; });
    jobs_.push_back({++last_id_, &pair, peer, patience, Clock::now(), {}, {}});
    changed_.notify_all();
}

void Connector::remove(const softnic::QueuePair& pair) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) { return job.pair == &pair; });
}

void* Connector::entry(void* self) {
    pthread_setname_np(pthread_self(), "verbatim-conn");
    static_cast<Connector*>(self)->run();
    return nullptr;
}

void Connector::run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
        if (jobs_.empty()) {
            changed_.wait(lock);
            continue;
        }
        const auto next =
            std::min_element(jobs_.begin(), jobs_.end(),
                             [](const Job& a, const Job& b) { return a.next_try < b.next_try; });
        if (const Clock::time_point due = next->next_try; due > Clock::now()) {
            changed_.wait_until(lock, due);
            continue;
        }
        const std::uint64_t id = next->id;
        const bool done = attempt(lock, *next);
        // The list may be another by now.
        const auto same =
            std::find_if(jobs_.begin(), jobs_.end(), [id](const Job& job) { return job.id == id; });
        if (same == jobs_.end()) continue;
        if (done || give_up_or_postpone(*same, Clock::now())) jobs_.erase(same);
    }
}

// Without the lock while the peer is asked: nobody who adds or removes waits for a peer.
bool Connector::attempt(std::unique_lock<std::mutex>& lock, Job job) try {
    const std::uint32_t number = job.pair->view().number;
    lock.unlock();
    const auto deadline = Clock::now() + kAttemptTime;
    std::shared_ptr<softnic::Link> link;
    softnic::ChannelSender channel;
    try {
        link = core_.link_to(job.peer, deadline);
        channel = softnic::ChannelSender(link->open_channel(number, job.peer.number, deadline));
    } catch (...) {
        lock.lock();
        throw;
    }
    lock.lock();
    const bool wanted = std::any_of(jobs_.begin(), jobs_.end(),
                                    [&](const Job& other) { return other.id == job.id; });
    if (wanted) job.pair->start(std::move(link), std::move(channel));
    return true;
} catch (const std::exception& error) {
    log::debug("queue pair {:#x}: {}", job.peer.number, error.what());
    return false;
}

// Requests that have waited too long fail; then nobody needs the peer any more.
bool Connector::give_up_or_postpone(Job& job, Clock::time_point now) {
    const bool waits = job.pair->has_requests();
    if (!waits)
        job.requests_since.reset();
    else if (!job.requests_since)
        job.requests_since = now;
    if (waits && job.patience && now - *job.requests_since >= *job.patience) {
        job.pair->give_up();
        return true;
    }
    job.pause = std::min(job.pause * 2, waits ? kBusyPause : kIdlePause);
    job.next_try = now + job.pause;
    return false;
}

}  // namespace verbatim::uverbs

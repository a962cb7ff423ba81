// Attempts, one after the other.
#include "connector.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <system_error>

#include <verbatim/driver/log.hpp>

#include "../../softnic/host/own_threads.hpp"
#include "../../softnic/links/identity.hpp"

namespace verbatim::uverbs {
namespace {

using namespace std::chrono_literals;

// A peer is looked for this often while requests wait, and while none do.
constexpr std::chrono::milliseconds kBusyPause{8}, kIdlePause{16};
// A process that is there and does not answer is stopped, or waits for a core: datagrams to it are
// dropped after this.
constexpr std::chrono::seconds kFlowPatience{5};

// The program hears of a retry counter, and of a datagram nothing at all.
void tell_absence(std::uint32_t own, std::uint32_t peer, bool reliable) {
    constexpr const char* kText = "queue pair {:#x} has waited for its peer {:#x} in vain: {}";
    if (reliable)
        log::warn(kText, own, peer, softnic::explain_absence(peer));
    else if (log::enabled(log::Level::info))
        log::info(kText, own, peer, softnic::explain_absence(peer));
}

}  // namespace

Connector::~Connector() {
    if (generation_ != softnic::fork_generation()) return;  // the thread stayed in the parent
    {
        const std::lock_guard lock(inbox_mutex_);
        stop_ = true;
    }
    tell();
    if (thread_) pthread_join(*thread_, nullptr);
}

void Connector::start() {
    const std::lock_guard lock(inbox_mutex_);
    if (thread_) return;
    pthread_t thread;
    const int refused = softnic::start_own_thread(thread, entry, this, softnic::Faults::taken);
    if (refused != 0) throw std::system_error(refused, std::generic_category());
    thread_ = thread;
}

void Connector::add(softnic::QueuePair& pair, const QueuePairAddress& peer,
                    std::optional<std::chrono::nanoseconds> patience) noexcept {
    remove(pair);
    hand_over(
        {0, &pair, peer, Goal::connection, patience, Clock::now(), kFirstPause, kFirstAttempt, {}});
}

void Connector::add_listener(softnic::QueuePair& pair, const QueuePairAddress& peer) noexcept {
    hand_over({0,
               &pair,
               peer,
               Goal::process,
               std::nullopt,
               Clock::now(),
               kFirstPause,
               kFirstAttempt,
               {}});
}

void Connector::add_flow(softnic::QueuePair& pair, const QueuePairAddress& peer) noexcept {
    const auto now = Clock::now();
    hand_over({0, &pair, peer, Goal::flow, kFlowPatience, now, kFirstPause, kFirstAttempt, now});
}

void Connector::hand_over(const Job& job) noexcept {
    {
        const std::lock_guard lock(inbox_mutex_);
        inbox_.push_back(job);
    }
    tell();
}

void Connector::remove(const softnic::QueuePair& pair) noexcept {
    const auto of_pair = [&](const Job& job) { return job.pair == &pair; };
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, of_pair);
    const std::lock_guard inbox_lock(inbox_mutex_);
    std::erase_if(inbox_, of_pair);
}

void* Connector::entry(void* self) {
    const softnic::OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-conn");
    static_cast<Connector*>(self)->run();
    return nullptr;
}

void Connector::run() {
    for (;;) {
        const std::uint32_t heard = told_.load();
        if (!take_over()) return;
        Clock::time_point next_due = Clock::time_point::max();
        attempt_next(next_due);
        sleep(heard, next_due);
    }
}

void Connector::tell() noexcept {
    told_.fetch_add(1);
    syscall(SYS_futex, &told_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// By hand: the C++ library's condition variables are written to when a wait ends, which is too
// early for who is at rest.
void Connector::sleep(std::uint32_t heard, Clock::time_point until) const noexcept {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    const timespec time{static_cast<time_t>(left / std::chrono::seconds(1)),
                        static_cast<long>(left % std::chrono::seconds(1) / 1ns)};
    const softnic::AtRest rest;
    syscall(SYS_futex, &told_, FUTEX_WAIT_PRIVATE, heard,
            until == Clock::time_point::max() ? nullptr : &time, nullptr, 0);
}

// False: it is over.
bool Connector::take_over() {
    const std::lock_guard lock(mutex_);
    const std::lock_guard inbox_lock(inbox_mutex_);
    for (Job& job : inbox_) {
        job.id = ++last_id_;
        jobs_.push_back(job);
    }
    inbox_.clear();
    return !stop_;
}

// The job that is due, if one is; when the next one will be.
void Connector::attempt_next(Clock::time_point& next_due) {
    std::unique_lock lock(mutex_);
    const auto earlier = [](const Job& a, const Job& b) { return a.next_try < b.next_try; };
    const auto next = std::min_element(jobs_.begin(), jobs_.end(), earlier);
    if (next == jobs_.end()) return;
    if (next->next_try <= Clock::now()) {
        const std::uint64_t id = next->id;
        const Outcome outcome = attempt(lock, *next);
        // The list may be another by now.
        const auto same =
            std::find_if(jobs_.begin(), jobs_.end(), [id](const Job& job) { return job.id == id; });
        if (same != jobs_.end() &&
            (outcome == Outcome::done ||
             give_up_or_postpone(*same, Clock::now(), outcome == Outcome::absent)))
            jobs_.erase(same);
    }
    for (const Job& job : jobs_) next_due = std::min(next_due, job.next_try);
}

// Without the lock while the peer is asked: nobody who adds or removes waits for a peer.
Connector::Outcome Connector::attempt(std::unique_lock<std::mutex>& lock, Job job) try {
    const std::uint32_t number = job.pair->view().number;
    lock.unlock();
    const auto deadline = Clock::now() + job.attempt_time;
    std::shared_ptr<softnic::Link> link;
    softnic::ChannelSender channel;
    std::shared_ptr<const softnic::WakeFile> waker;
    try {
        link = core_.link_to(job.peer, deadline);
        if (job.goal != Goal::process) {
            softnic::ChannelPlace place = link->open_channel(number, job.peer.number, deadline);
            waker = std::move(place.waker);
            channel = softnic::ChannelSender(std::move(place));
        }
    } catch (...) {
        lock.lock();
        throw;
    }
    lock.lock();
    const bool wanted = std::any_of(jobs_.begin(), jobs_.end(),
                                    [&](const Job& other) { return other.id == job.id; });
    if (!wanted) return Outcome::done;
    if (job.goal == Goal::process)
        job.pair->states().acknowledge_to(std::move(link));
    else if (job.goal == Goal::flow)
        job.pair->states().add_flow(job.peer.number, std::move(link), std::move(channel));
    else
        job.pair->states().start(std::move(link), std::move(channel), std::move(waker));
    return Outcome::done;
} catch (const Error& error) {
    log::debug("queue pair {:#x}: {}", job.peer.number, error.what());
    // The link may have been one to a process that has ended, whose number another one has now.
    const bool tried = job.pause > kFirstPause;
    const bool gone = error.code() == Errc::peer_lost && tried;
    const bool answered = error.code() == Errc::unsupported ||
                          error.code() == Errc::permission_denied ||
                          error.code() == Errc::connection_refused;
    return gone || answered ? Outcome::absent : Outcome::failed;
} catch (const std::exception& error) {
    log::debug("queue pair {:#x}: {}", job.peer.number, error.what());
    return Outcome::failed;
}

// Requests that have waited too long fail; then nobody needs the peer any more.
bool Connector::give_up_or_postpone(Job& job, Clock::time_point now, bool absent) {
    const bool waits =
        job.goal == Goal::flow ||
        (job.goal == Goal::connection && job.pair->turns().engines().requester().waiting());
    if (!waits)
        job.requests_since.reset();
    else if (!job.requests_since)
        job.requests_since = now;
    // Datagrams wait for nobody who is not there.
    const bool in_vain = job.goal == Goal::flow && absent;
    if (in_vain || (waits && job.patience && now - *job.requests_since >= *job.patience)) {
        tell_absence(job.pair->view().number, job.peer.number, job.goal == Goal::connection);
        job.goal == Goal::flow ? job.pair->states().refuse_flow(job.peer.number, in_vain)
                               : job.pair->states().give_up();
        return true;
    }
    job.attempt_time = std::min(job.attempt_time * 2, kLongestAttempt);
    job.pause = std::min(job.pause * 2, waits ? kBusyPause : kIdlePause);
    job.next_try = now + job.pause;
    return false;
}

}  // namespace verbatim::uverbs

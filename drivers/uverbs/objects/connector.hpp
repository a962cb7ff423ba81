// Finds the way to peers in the background. A program that makes a queue pair ready to send only
// names the other one's number, and that may not exist or not be ready yet; nothing waits for it
// but the requests. A thread of its own tries again until the peer is there, or until requests have
// waited as long as the queue pair's attributes say. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../../softnic/device.hpp"
#include "../../softnic/queue_pair.hpp"

namespace verbatim::uverbs {

class Connector {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Connector(softnic::DeviceCore& core) : core_(core) {}
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    // Called again: nothing. Throws std::system_error if there can be no thread.
    void start();
    // Connects the queue pair to `peer`. Requests posted meanwhile wait `patience` long, or for
    // ever.
    void add(softnic::QueuePair& pair, const QueuePairAddress& peer,
             std::optional<std::chrono::nanoseconds> patience) noexcept;
    // Opens a flow from a datagram queue pair to `peer`, or refuses it. May be called inside the
    // queue pair's gates.
    void add_flow(softnic::QueuePair& pair, const QueuePairAddress& peer) noexcept;
    // Only finds the process of `peer`, for a queue pair that receives and does not send (yet).
    void add_listener(softnic::QueuePair& pair, const QueuePairAddress& peer) noexcept;
    // Afterwards the queue pair is not touched any more.
    void remove(const softnic::QueuePair& pair) noexcept;

  private:
    // For an answer of a peer's control thread, which does nothing but answer; one that waits for
    // a core gets twice the time with each attempt.
    static constexpr std::chrono::milliseconds kFirstAttempt{200}, kLongestAttempt{800};
    static constexpr std::chrono::milliseconds kFirstPause{1};

    enum class Goal : std::uint8_t { connection, flow, process };
    enum class Outcome : std::uint8_t { done, failed, absent };
    struct Job {
        std::uint64_t id;
        softnic::QueuePair* pair;
        QueuePairAddress peer;
        Goal goal;
        std::optional<std::chrono::nanoseconds> patience;
        Clock::time_point next_try;
        std::chrono::milliseconds pause = kFirstPause;
        std::chrono::milliseconds attempt_time = kFirstAttempt;
        std::optional<Clock::time_point> requests_since;
    };

    static void* entry(void* self);
    void hand_over(const Job& job) noexcept;
    bool take_over();
    void run();
    void tell() noexcept;
    void sleep(std::uint32_t heard, Clock::time_point until) const noexcept;
    void attempt_next(Clock::time_point& next_due);
    Outcome attempt(std::unique_lock<std::mutex>& lock, Job job);
    static bool give_up_or_postpone(Job& job, Clock::time_point now, bool absent);

    softnic::DeviceCore& core_;
    std::mutex mutex_;  // guards jobs_, and the queue pairs in them; taken before inbox_mutex_
    std::list<Job> jobs_;
    std::uint64_t last_id_ = 0;

    std::atomic<std::uint32_t> told_{0};  // how often there were news; a futex
    std::mutex inbox_mutex_;              // guards what follows; nothing is waited for under it
    std::vector<Job> inbox_;
    bool stop_ = false;
    std::optional<pthread_t> thread_;
    std::uint64_t generation_ = softnic::fork_generation();
};

}  // namespace verbatim::uverbs

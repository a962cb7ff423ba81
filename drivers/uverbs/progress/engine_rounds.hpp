// Rounds over the queue pairs of a device file: each one executes what was posted and raises the
// events that are due. One thread at a time makes a round. Threads: under the lock that this class
// is itself, but for queue_pairs().
#pragma once

#include <cstdint>
#include <mutex>

#include "../../softnic/queue_pair.hpp"
#include "../../softnic/rings/progress_list.hpp"
#include "event_queues.hpp"

namespace verbatim::uverbs {

// Why a program cannot have rung a doorbell unnoticed.
enum class Doorbells : std::uint8_t {
    trapped,    // traps are set
    announced,  // its calls announce them, and execute what they stand for
    unwatched   // it can
};

class EngineRounds {
  public:
    using Return = softnic::QueuePair::Return;

    // The queues must stay.
    explicit EngineRounds(EventQueues& queues) : queues_(queues) {}

    // Those that are executed. Any thread.
    softnic::ProgressList& queue_pairs() noexcept { return queue_pairs_; }
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

    void look(Doorbells doorbells) noexcept;
    // The same, and what it finds is not counted. True: it found requests.
    bool look_aside(Doorbells doorbells) noexcept;
    // Doorbells that no trap stopped and no call announced may be there.
    void expect_unread() noexcept { unread_ = true; }

    // Of the last round: whether queue pairs wait for a time, or for peers, who ring when they have
    // answered; and whether someone must come back although nothing rings.
    Return when_to_return() const noexcept { return return_; }
    bool awaits_peers() const noexcept { return awaits_peers_; }
    bool must_return() const noexcept {
        return return_ != Return::never || queues_.due() != EventQueues::Clock::time_point::max();
    }
    // Since they were taken: blocks that nobody had executed, and whether completions were made.
    std::uint32_t requests_found() const noexcept { return requests_found_; }
    std::uint32_t take_requests_found() noexcept;
    bool take_made_completions() noexcept;

  private:
    void read_doorbells(Doorbells doorbells) noexcept;

    EventQueues& queues_;
    softnic::ProgressList queue_pairs_;
    std::mutex mutex_;  // guards what follows
    std::uint32_t requests_found_ = 0;
    bool made_completions_ = false;
    bool awaits_peers_ = false;
    bool unread_ = true;
    Return return_ = Return::never;
};

}  // namespace verbatim::uverbs

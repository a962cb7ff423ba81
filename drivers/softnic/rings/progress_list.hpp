// The queue pairs that one driver of progress goes round: a completion queue's polls, or an engine
// thread. A round takes the marks that peers have left (work_board.hpp) and looks at the queue
// pairs that are hot (attention.hpp); so it costs the same with ten thousand idle queue pairs.
// Threads: progress() and walk() any, one of them walks at a time and the others find nothing to
// do; what adds and removes is control path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../host/descriptor.hpp"
#include "channel_slab.hpp"
#include "hot_set.hpp"

namespace verbatim::softnic {

class QueuePair;

// What is done of a ring's removal from the rounds of those who take its marks.
struct Leaving {
    bool unlisted = false;
    std::size_t lists = 0;
    bool taken_out = false;  // of the next list
};

class ProgressList {
  public:
    ProgressList() : sources_(new Sources) {}
    ~ProgressList() { delete sources_.load(std::memory_order_relaxed); }
    ProgressList(const ProgressList&) = delete;
    ProgressList& operator=(const ProgressList&) = delete;

    void progress() noexcept;
    // Calls `function` with each queue pair that may have work, unless another thread walks
    // already.
    template <class Function>
    void walk(Function&& function) noexcept {
        round([&] {
            const Sources& sources = *sources_.load();
            if (generation_ != fork_generation()) [[unlikely]]
                heat_copies();
            else
                for (ChannelSlab* const slab : sources.slabs) slab->take_marks(heat);
            for (ProgressList* const list : sources.lists) list->walk(function);
            looked_at_.store(hot_.for_each_hot(function), std::memory_order_relaxed);
        });
    }
    // The same with each one that is attached. For rare occasions.
    template <class Function>
    void walk_all(Function&& function) noexcept {
        round([&] {
            for (ProgressList* const list : sources_.load()->lists) list->walk_all(function);
            hot_.for_each(function);
        });
    }

    HotSet& hot() noexcept { return hot_; }
    // Queue pairs that the last round looked at, those of other lists not counted. Any thread.
    std::uint32_t looked_at() const noexcept { return looked_at_.load(std::memory_order_relaxed); }
    // Throws Error(out_of_memory) where there is no room for another one.
    HotSet::Place attach(QueuePair& queue_pair);
    // After it returns no round of this list comes to the queue pair any more.
    void detach(const HotSet::Place& place);
    // Afterwards, when no round of another list sets its bit: the place is free.
    void give_back(const HotSet::Place& place);
    // Marks that rounds take from now on; as often removed as added.
    void add(ChannelSlab& slab);
    void remove(ChannelSlab& slab);
    // The same until the deadline. False: a round goes on; to be called again, with `taken_out`,
    // which is false at first.
    bool remove(ChannelSlab& slab, bool& taken_out, Instant deadline);
    // A list that rounds go on with: its queue pairs are driven by several.
    void add(ProgressList& list);
    void remove(ProgressList& list);
    // Until the round that goes on has ended.
    void wait_for_round() const noexcept { wait_for_round(Instant::max()); }
    // False: it has not before the deadline.
    bool wait_for_round(Instant deadline) const noexcept;
    // Odd: a round goes on.
    std::uint64_t rounds() const noexcept { return rounds_.load(); }

  private:
    // What a round reads. Replaced as a whole; an old one is kept until no round can have it.
    struct Sources {
        std::vector<ChannelSlab*> slabs;
        std::vector<ProgressList*> lists;
    };
    template <class T>
    using Counts = std::vector<std::pair<T*, std::uint32_t>>;

    template <class Work>
    void round(Work&& work) noexcept {
        std::uint64_t round = rounds_.load(std::memory_order_relaxed);
        if ((round & 1) != 0) return;
        // Sequentially consistent, as are the accesses in wait_for_round(): either this round is
        // seen there, or what was changed before is seen here.
        if (!rounds_.compare_exchange_strong(round, round + 1)) return;
        work();
        rounds_.store(round + 2, std::memory_order_release);
    }
    static void heat(QueuePair& queue_pair) noexcept;
    void heat_copies() noexcept;
    void publish();

    std::atomic<std::uint64_t> rounds_{0};     // odd while a thread walks
    std::atomic<std::uint32_t> looked_at_{0};  // hot queue pairs of the last round
    HotSet hot_;
    std::atomic<const Sources*> sources_;
    const std::uint64_t generation_ = fork_generation();
    bool copies_hot_ = false;  // of the round, in a forked child

    std::mutex mutex_;  // guards what follows
    Counts<ChannelSlab> slabs_;
    Counts<ProgressList> lists_;
    std::vector<std::unique_ptr<const Sources>> retired_;
};

}  // namespace verbatim::softnic

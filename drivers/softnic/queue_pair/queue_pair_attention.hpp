// The attention of a queue pair: the progress lists that look at it, and the rings whose marks
// bring their rounds to it. The protocol is attention.hpp's.
#pragma once

#include <cstdint>
#include <span>

#include "../rings/attention.hpp"
#include "queue_pair_state.hpp"

namespace verbatim::softnic {

class QueuePair;

class QueuePairAttention {
  public:
    QueuePairAttention(QueuePair& owner, QueuePairShared& shared) noexcept
        : owner_(owner), shared_(shared) {}

    // Control path. The queue pair enters the lists that drive it, and is hot. Throws
    // std::bad_alloc.
    void attach(std::span<ProgressList* const> lists);
    // Nothing changes any more, so that a ring can go, or the queue pair from its lists; that ends
    // with stay_hot(), or with leave_lists().
    void close() noexcept { protocol_.close(); }
    void leave_lists() noexcept;

    // Whether each round looks at it. Any thread.
    bool hot() const noexcept { return protocol_.hot(); }
    // Each list looks at it in its next round. After what is to be found was stored. Any thread.
    void heat() noexcept;
    // The same inside a gate. Another thread may heat it just now: its bits are set by both.
    void heat_inside() noexcept {
        heat();
        protocol_.set_bits();
    }
    // The rings' peers mark, or need not.
    void tell_rings(bool marks_wanted) noexcept;

    // Of a round: whether it found something to do.
    void found_work() noexcept { protocol_.found_work(); }
    bool weary(std::uint32_t patience) noexcept { return protocol_.weary(patience); }
    // True: followed by stay_hot() or become_cold(), the latter inside both gates.
    bool begin_cooling() noexcept { return protocol_.begin_cooling(); }
    void stay_hot() noexcept { protocol_.finish_hot(); }
    void become_cold() noexcept {
        tell_rings(true);
        protocol_.finish_cold();
    }

    // Control path: marks of this ring bring rounds to the queue pair. Throws std::bad_alloc.
    void listen_to(const ChannelReceiver& ring);
    // False: a round went on until the deadline. To be called again, with what was done.
    bool listen_no_more(const ChannelReceiver& ring, Leaving& done,
                        Instant deadline = Instant::max()) noexcept;
    // Of a ring that was never listened to.
    Leaving nothing_to_leave() const noexcept { return {true, protocol_.lists().size(), false}; }

  private:
    static void give_up(const Attention::Listed& listed) noexcept;

    QueuePair& owner_;
    QueuePairShared& shared_;
    Attention protocol_;
    const std::uint64_t generation_ = fork_generation();
};

}  // namespace verbatim::softnic

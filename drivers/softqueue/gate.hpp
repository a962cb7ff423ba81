// A gate around one side of a queue pair: one thread runs inside, others leave a mark and go on. It
// replaces a mutex on the data path: nobody ever waits, and work announced by a mark is done by the
// thread inside.
#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

namespace verbatim::softnic {

class Gate {
  public:
    // True: the caller is inside. False: another thread is, and it will go round once more and see
    // everything the caller wrote before this call.
    bool enter() noexcept {
        std::uint32_t seen = kOpen;
        if (word_.compare_exchange_strong(seen, kInside, std::memory_order_acquire,
                                          std::memory_order_relaxed))
            return true;
        for (;;) {
            // The mark is stored even if one is there: the thread inside must synchronise with this
            // store.
            const std::uint32_t wanted = seen == kOpen ? kInside : kAgain;
            if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel,
                                            std::memory_order_relaxed))
                return wanted == kInside;
        }
    }

    // The same without a mark.
    bool try_enter() noexcept {
        std::uint32_t seen = kOpen;
        return word_.compare_exchange_strong(seen, kInside, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }

    // Whether a thread is inside. If not, the caller sees everything that the last one did there.
    bool occupied() const noexcept { return word_.load(std::memory_order_acquire) != kOpen; }

    // True: the caller has left. False: somebody left a mark, the caller is still inside and must
    // work again.
    bool leave() noexcept {
        std::uint32_t seen = kInside;
        if (word_.compare_exchange_strong(seen, kOpen, std::memory_order_release,
                                          std::memory_order_acquire))
            return true;
        word_.exchange(kInside, std::memory_order_acq_rel);
        return false;
    }

    // Leaves although there may be a mark: only where others come to look, as they do at a queue
    // pair that is hot (attention.hpp), or the caller looks.
    void leave_for_good() noexcept { word_.store(kOpen, std::memory_order_release); }

    // True: the caller has left, and there was no mark. False: it has left in spite of one.
    bool leave_or_drop() noexcept {
        if (leave()) return true;
        leave_for_good();
        return false;
    }

    // Control path only: waits until it is inside.
    void enter_waiting() noexcept {
        std::uint32_t seen = kOpen;
        while (!word_.compare_exchange_weak(seen, kInside, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
            seen = kOpen;
            sched_yield();
        }
    }

  private:
    static constexpr std::uint32_t kOpen = 0, kInside = 1, kAgain = 2;
    std::atomic<std::uint32_t> word_{kOpen};
};

// Control path: inside the gate, for which it waits, while this lives.
class InsideGate {
  public:
    explicit InsideGate(Gate& gate) noexcept : gate_(gate) { gate_.enter_waiting(); }
    ~InsideGate() { gate_.leave_for_good(); }
    InsideGate(const InsideGate&) = delete;
    InsideGate& operator=(const InsideGate&) = delete;

  private:
    Gate& gate_;
};

}  // namespace verbatim::softnic

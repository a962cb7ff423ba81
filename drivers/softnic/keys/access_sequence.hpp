// A sequence word that says when memory is touched: odd while its owner is inside. A thread that
// has taken memory away looks at it, and waits until what was odd has changed (revocation.hpp,
// docs/revocation.md). Threads: the one inside the gate of the engine that owns it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

// Of a peer's memory, at most this much is touched under one odd value. About 100 us of copying.
inline constexpr std::uint64_t kMostInside = std::uint64_t{1} << 20;

class AccessSequence {
  public:
    // `word`: where revokers look; it must stay. `fenced`: not all of them raise barriers in this
    // process. A word that was left odd by a process that died is even afterwards.
    void bind(std::atomic<std::uint64_t>& word, bool fenced) noexcept {
        word_ = &word;
        fenced_ = fenced;
        sequence_ = word.load(std::memory_order_relaxed);
        recover();
    }
    void unbind() noexcept { word_ = nullptr; }

    // Afterwards whatever grants the access must be looked at (again).
    void enter() noexcept {
        before_store();
        if (fenced_) [[unlikely]] {
            word_->exchange(++sequence_, std::memory_order_seq_cst);
        } else {
            word_->store(++sequence_, std::memory_order_relaxed);
            // The revoker's barrier does the rest.
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    }
    void leave() noexcept { store_release(*word_, ++sequence_); }
    // After a jump out of the access; and at other times.
    void recover() noexcept {
        if ((sequence_ & 1) != 0 && word_ != nullptr) leave();
    }

  private:
    std::atomic<std::uint64_t>* word_ = nullptr;
    std::uint64_t sequence_ = 0;
    bool fenced_ = true;
};

// As long as it lives, its thread may be touching memory.
class MemoryTouch {
  public:
    explicit MemoryTouch(AccessSequence& sequence) noexcept : sequence_(sequence) {
        sequence_.enter();
    }
    ~MemoryTouch() { sequence_.leave(); }
    MemoryTouch(const MemoryTouch&) = delete;
    MemoryTouch& operator=(const MemoryTouch&) = delete;

  private:
    AccessSequence& sequence_;
};

}  // namespace verbatim::softnic

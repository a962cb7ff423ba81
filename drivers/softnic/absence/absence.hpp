// The absence of a queue pair's program: what waits for the peer's responder, or for this one,
// while no thread posts or polls. Who leaves such work behind enters the queue pair in its device's
// list, and the absent poller looks at it (absent_poller.hpp). Threads: any, but for what says
// otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include "../engine/requester.hpp"
#include "../responder/receive_engine.hpp"
#include "absent_poller.hpp"

namespace verbatim::softnic {

class Absence {
  public:
    // Of a queue pair: both engines once.
    struct Turn {
        void (*run)(void* context) noexcept;
        void* context;
    };
    // `poller`: null where the device has none.
    Absence(AbsentPoller* poller, const Turn& turn) noexcept : poller_(poller), turn_(turn) {}
    Absence(const Absence&) = delete;
    Absence& operator=(const Absence&) = delete;

    // Control path. Once, before any list drives the queue pair.
    void bind(const QueuePairShared& shared, const Requester& requester,
              const ReceiveEngine& responder) noexcept;
    // Nothing is looked at before open(), and after close(), which waits for a look.
    void open() noexcept;
    void close() noexcept;

    // Data path, after a turn: of a doorbell; of a poll that found requests; of an arming.
    void posted() noexcept {
        if (requester_ != nullptr && held_up()) [[unlikely]]
            enter();
    }
    void polled() noexcept {
        const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
        polls_.store(polls, std::memory_order_relaxed);
        if (polls % kPollsInVain == 0) [[unlikely]]
            compare();
    }
    void armed() noexcept {
        if (requester_ != nullptr && requester_->waiting()) enter();
    }
    // Control thread: a peer says that its requests wait for this side.
    void asked() noexcept;

  private:
    friend class AbsentPoller;
    // Polls between two looks at whether anything goes on.
    static constexpr std::uint32_t kPollsInVain = 4096;
    enum class Place : std::uint8_t { closed, outside, listed };

    void enter() noexcept;
    void compare() noexcept;
    // A post left requests that wait for others than this thread: here, or at the peer.
    bool held_up() const noexcept {
        return requester_->unexecuted() ||
               (requester_->outstanding() != 0 && shared_->is(QueuePairState::ready) &&
                requester_->port().relies_on_peer());
    }
    std::uint64_t mark() const noexcept;
    // The poller's: under its lock, when it enters the list; without it; any thread.
    void begin() noexcept;
    AbsentPoller::Found look(bool asked) noexcept;
    bool waits() const noexcept;

    AbsentPoller::Found look_at_requests() noexcept;
    bool serve() noexcept;
    void ask_peer() noexcept;

    AbsentPoller* const poller_;
    const Turn turn_;
    // Set by bind(), if there is a poller.
    const QueuePairShared* shared_ = nullptr;
    const Requester* requester_ = nullptr;
    const ReceiveEngine* responder_ = nullptr;
    std::atomic<std::uint32_t> polls_{0};      // that found requests; more or less
    std::atomic<std::uint64_t> polled_at_{0};  // the requester's mark when these were compared last
    // Of the poller's looks.
    std::uint64_t looked_at_ = 0;
    std::uint32_t polls_then_ = 0;
    // Written under the poller's lock.
    std::atomic<Place> place_{Place::closed};
    bool asked_ = false;
    Absence *before_ = nullptr, *after_ = nullptr;
};

}  // namespace verbatim::softnic

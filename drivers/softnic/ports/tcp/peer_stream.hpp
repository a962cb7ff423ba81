// The wire of a queue pair, a stream or packets, and the threads that drive it: pollers while there
// are any, else the engine thread (docs/tcp-port.md). Threads: any, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "../../host/local_socket.hpp"
#include "event_thread.hpp"
#include "wire.hpp"

namespace verbatim::softnic {

class PeerStream final : EventThread::Handler {
  public:
    // What the engine thread does instead of a poll; null: nothing.
    struct Driver {
        void (*call)(void* context) noexcept = nullptr;
        void* context = nullptr;
    };

    explicit PeerStream(std::unique_ptr<Wire> wire) noexcept : wire_(std::move(wire)) {}
    ~PeerStream() { unwatch(); }

    Wire& wire() noexcept { return *wire_; }
    const Wire& wire() const noexcept { return *wire_; }
    const PeerWords& words() const noexcept { return wire_->words(); }
    // Control path, once: the engine thread drives it from now on where nobody polls. `attach_by`:
    // when it is lost that has no socket yet. Throws Error(device_error).
    void watch(EventThread& thread, const Driver& driver, Instant attach_by);
    // Then, once. Any thread; may throw Error(device_error).
    void attach(Descriptor socket, Wire::Origin origin);
    // Control path, beside polls; the thread outlives this. Afterwards it does not come any more.
    void unwatch() noexcept;

    // A poll; as Wire::progress().
    Wire::Found poll() noexcept {
        polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        const Wire::Found found = wire_->progress();
        if (wire_->armed()) [[unlikely]]
            call_engine_thread();
        return found;
    }
    // Of the engine thread, inside the driver's call. It looks until nothing comes.
    Wire::Found drive() noexcept {
        const Wire::Found found = wire_->progress();
        return found > Wire::Found::nothing ? Wire::Found::more : found;
    }
    // Something was posted, or is to be said.
    void flush() noexcept {
        wire_->flush();
        if (wire_->armed()) [[unlikely]]
            call_engine_thread();
    }
    // The poll ends, and the responder ran in it; as Wire::settle().
    void settle() noexcept {
        wire_->settle();
        if (wire_->armed()) [[unlikely]]
            call_engine_thread();
    }
    // True once, when nothing that is sent is answered any more.
    bool take_silence() noexcept {
        return words().silent() && !silence_taken_.load(std::memory_order_relaxed) &&
               !silence_taken_.exchange(true);
    }
    // No poll comes soon, but for one or two before the thread sleeps: the next byte wakes the
    // engine thread.
    void hand_over() noexcept {
        handed_over_until_.store(polls_.load(std::memory_order_relaxed) + kStrayPolls,
                                 std::memory_order_relaxed);
        arm();
        flush();
    }

  private:
    static constexpr std::uint64_t kStrayPolls = 4;
    static constexpr unsigned kMostTurnedAway = 8;
    bool ready() noexcept override;
    bool tick() noexcept override;
    void beat() noexcept override;
    bool wants_ticks() const noexcept override { return wire_->timed(); }
    void arm() noexcept;
    void call_engine_thread() noexcept;
    bool polled() noexcept;
    bool drive_and_arm() noexcept;

    const std::unique_ptr<Wire> wire_;
    EventThread* thread_ = nullptr;  // constant once it watches
    std::uint64_t number_ = 0;
    Driver driver_;
    Instant attach_by_;
    std::atomic<std::uint64_t> polls_{0}, handed_over_until_{0};
    std::atomic<bool> silence_taken_{false};
    // The engine thread's.
    std::uint64_t seen_polls_ = 0;
    unsigned turned_away_ = 0;  // times in a row that another thread was inside
};

}  // namespace verbatim::softnic

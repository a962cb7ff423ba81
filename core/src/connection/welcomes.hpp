// Handshakes of an accepting side, each in a thread of its own: a caller who says hello and then
// nothing more keeps only that thread, for two times [connect] timeout at most. Other callers wait
// for it no longer than a head start.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "../bootstrap/side_channel.hpp"
#include "connection_impl.hpp"
#include "context_impl.hpp"

namespace verbatim {

// Threads: members are called by the listener's thread.
class Welcomes {
  public:
    static constexpr std::size_t kMost = 16;
    // A handshake for a lane that was named is given this
    // time before the next one for that lane begins: it ties the caller to the lane, and the next
    // accept() may be for another. Two honest handshakes took 20 ms together on 2 cores (-O0,
    // software NIC).
    static constexpr std::chrono::milliseconds kHeadStart{200};

    // Throws Error(device_error) if the process may open no more descriptors.
    Welcomes();
    // Ends the handshakes that still run.
    ~Welcomes();
    Welcomes(const Welcomes&) = delete;
    Welcomes& operator=(const Welcomes&) = delete;

    // When one more handshake may begin for this lane: in the past, after a head start, or (max)
    // after another one has ended. Null: for any lane, and without head starts.
    Clock::time_point may_start(const Lane::Impl* lane) noexcept;
    // A lane for one more connection, with room in its queue.
    struct Place {
        std::shared_ptr<Lane::Impl> lane;
        Reservation reservation;
    };
    // A connection that only has to join its lane.
    struct Ready {
        Place place;
        Meeting meeting;
    };
    // Goes on with a caller whose hello has come. Not before may_start().
    void start(std::shared_ptr<Context::Impl> context, Place place, SideChannel channel,
               const Hello& hello);
    // One for this lane, as its queue pair belongs to that lane's queue. Null: for any. Nothing
    // where none is ready. Callers that failed were told and logged.
    std::optional<Ready> take(const Lane::Impl* lane);
    // Readable after a handshake ended, until take() returned null.
    const Descriptor& ended() const noexcept { return ended_; }

  private:
    struct One {
        explicit One(Place at) : place(std::move(at)) {}
        Descriptor socket;  // a second descriptor of the caller's socket
        std::thread thread;
        Place place;
        const Clock::time_point begun = Clock::now();
        bool is_done = false;  // this and the next: under mutex_
        std::optional<Meeting> meeting;
    };
    void run(One& one, std::shared_ptr<Context::Impl> context, SideChannel channel,
             const Hello& hello) noexcept;

    Descriptor ended_;  // eventfd
    std::atomic<bool> ending_{
        false};  // this side breaks off: whatever fails now is no caller's fault
    std::mutex mutex_;
    std::list<One> running_;
};

}  // namespace verbatim

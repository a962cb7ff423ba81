// Handshakes of an accepting side, each in a thread of its own: a caller who says hello and then
// nothing more keeps only that thread, for two times [connect] timeout at most, and no other
// caller.
#pragma once

#include <atomic>
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

    // Throws Error(device_error) if the process may open no more descriptors.
    Welcomes();
    // Ends the handshakes that still run.
    ~Welcomes();
    Welcomes(const Welcomes&) = delete;
    Welcomes& operator=(const Welcomes&) = delete;

    bool is_full() const noexcept { return running_.size() == kMost; }
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
    // Goes on with a caller whose hello has come. Not when full.
    void start(std::shared_ptr<Context::Impl> context, Place place, SideChannel channel,
               const Hello& hello);
    // Nothing where none is ready. Callers that failed were told and logged.
    std::optional<Ready> take();
    // Readable after a handshake ended, until take() returned null.
    const Descriptor& ended() const noexcept { return ended_; }

  private:
    struct One {
        explicit One(Place at) : place(std::move(at)) {}
        Descriptor socket;  // a second descriptor of the caller's socket
        std::thread thread;
        Place place;
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

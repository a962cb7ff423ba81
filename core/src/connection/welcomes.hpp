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

// Threads: members are called by the listener's thread, which is that of its lanes.
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
    // Goes on with a caller whose hello has come, for a lane. Not when full. Throws
    // Error(out_of_memory): the lane has no room.
    void start(std::shared_ptr<Context::Impl> context, std::shared_ptr<Lane::Impl> lane,
               SideChannel channel, const Hello& hello);
    // A connection that is ready, on its lane, or null. Callers that failed were told and logged.
    std::unique_ptr<Connection::Impl> take();
    // Readable after a handshake ended, until take() returned null.
    const Descriptor& ended() const noexcept { return ended_; }

  private:
    struct One {
        Descriptor socket;  // a second descriptor of the caller's socket
        std::thread thread;
        std::shared_ptr<Lane::Impl> lane;
        std::optional<Reservation> reservation;  // of the lane; owner: the listener's thread
        bool is_done = false;                    // this and the next: under mutex_
        std::optional<Meeting> meeting;
    };
    void run(One& one, std::shared_ptr<Context::Impl> context, SideChannel channel,
             const Hello& hello) noexcept;
    std::unique_ptr<Connection::Impl> join(One& one);

    Descriptor ended_;  // eventfd
    std::atomic<bool> ending_{
        false};  // this side breaks off: whatever fails now is no caller's fault
    std::mutex mutex_;
    std::list<One> running_;
};

}  // namespace verbatim

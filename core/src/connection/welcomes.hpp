// Handshakes of an accepting side, side by side: a caller who says hello and then nothing more
// keeps only a place here, for two times [connect] timeout at most. Other callers wait for it no
// longer than a head start.
#pragma once

#include <chrono>
#include <list>
#include <memory>
#include <optional>

#include "connection_impl.hpp"
#include "context_impl.hpp"
#include "handshake.hpp"

namespace verbatim {

// Threads: the listener's.
class Welcomes {
  public:
    static constexpr std::size_t kMost = 16;
    // A handshake for a lane that was named is given this
    // time before the next one for that lane begins: it ties the caller to the lane, and the next
    // accept() may be for another. Two honest handshakes took 20 ms together on 2 cores (-O0,
    // software NIC).
    static constexpr std::chrono::milliseconds kHeadStart{200};

    // When one more handshake may begin for this lane: in the past, after a head start, or (max)
    // after another one has ended. Null: for any lane, and without head starts.
    Clock::time_point may_start(const Lane::Impl* lane) const noexcept;
    // Takes a caller whose hello has come. Not before may_start().
    void start(const std::shared_ptr<Context::Impl>& context, LaneOfEndpoint lane,
               SideChannel channel, const Hello& hello);
    // Goes on with all of them. Callers that failed are told and logged.
    void go_on() noexcept;
    // What go_on() waits for.
    void add_to(WaitList& list) const;
    // One for this lane, as its queue pair belongs to that lane's queue. Null: for any. Nothing
    // where none is ready.
    std::optional<Meeting> take(const Lane::Impl* lane);

  private:
    struct One {
        Handshake shaking;
        Clock::time_point begun = Clock::now();
        bool has_met = false;
    };
    std::list<One> running_;
};

}  // namespace verbatim

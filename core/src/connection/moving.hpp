// Moving takes one connection to another queue pair, and, on the side that asked, to another lane:
// docs/moving.md. Threads: those of the lane that drives the connection.
#pragma once

#include <memory>
#include <string>

#include <verbatim/core/connection.hpp>

#include "../moving/move.hpp"

namespace verbatim {

class Moving {
  public:
    explicit Moving(Connection::Impl& impl) noexcept : impl_(impl) {}

    bool is_busy() const noexcept { return move_ != nullptr || asked_.has_value(); }
    // A frame of the peer that is no bye. Throws Error(protocol_error) where none such is due.
    void hear(const Frame& frame);
    // Of each poll while it is busy. Afterwards it may be busy no more.
    void go_on() noexcept;
    // The program ended the connection: what its own call began on the old lane is broken off.
    void give_up() noexcept;

    // The layer that lends by itself (LayerAccess).
    struct Layer {
        bool (*call)(void* state, bool is_asked) noexcept = nullptr;
        void* state = nullptr;
        std::shared_ptr<void> buffers;
        // It lends nothing any more. Else once more, after a poll. `is_asked`: the peer moves.
        bool is_ready(bool is_asked) const noexcept {
            return call == nullptr || call(state, is_asked);
        }
    };
    Layer layer;

    // -- For the call --
    // Throws Error: it may not move now, to this lane; `with_grants`: or something is lent.
    void check(const Lane& lane, bool with_grants) const;
    // The new queue pair on a lane where room was made.
    NextQueuePair make(std::shared_ptr<Lane::Impl> lane, Reservation reservation) const;
    void begin(NextQueuePair next, std::shared_ptr<MoveOutcome> outcome);
    // Connected, and no other thread is on its way to the old lane. Else once more, after a poll.
    bool may_leave() noexcept;
    // In the old lane's thread. From then on no poll finds the connection.
    std::shared_ptr<void> leave() noexcept;
    // In the new lane's thread; `hosted` is what leave() returned.
    void join(std::shared_ptr<void> hosted) noexcept;

  private:
    void hear_move(const Frame& frame);
    void hear_ready();
    void hear_refusal(const Frame& frame);
    void take_part();
    void hear_asked() noexcept;
    void step();
    void say_move();
    void connect();
    void use_next();
    bool finish() noexcept;
    void resume(Errc code, std::string text) noexcept;
    void expire() noexcept;
    void lose(const std::string& cause) noexcept;
    void end(const std::string& cause) noexcept;

    Connection::Impl& impl_;
    std::unique_ptr<Move> move_;
    std::optional<Hello> asked_;  // the peer's move, which waits for the layer
    Deadline asked_until_;
};

}  // namespace verbatim

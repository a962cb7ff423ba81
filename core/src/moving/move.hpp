// A move is the replacement of one connection's queue pair, as one side sees it: what has been said
// and heard, the new queue pair, and the call that waits. docs/moving.md has the states. Threads:
// those of the lane that drives the connection, but for what says otherwise.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <verbatim/core/deadline.hpp>
#include <verbatim/driver/device.hpp>

#include "../bootstrap/hello.hpp"
#include "../lane/lane_impl.hpp"
#include "../queue/reservation.hpp"

namespace verbatim {

// An outcome is what the waiting call learns. Written once, by the last lane that drives the move.
class MoveOutcome {
  public:
    // `text` is the cause. ok: the connection has moved.
    void tell(Errc code, std::string text = {}) noexcept {
        if (is_known()) return;
        code_ = code;
        text_ = std::move(text);
        is_known_.store(true, std::memory_order_release);
    }
    // Any thread. The others once it is known.
    bool is_known() const noexcept { return is_known_.load(std::memory_order_acquire); }
    Errc code() const noexcept { return code_; }
    const std::string& text() const noexcept { return text_; }

  private:
    Errc code_ = Errc::ok;
    std::string text_;
    std::atomic<bool> is_known_{false};
};

// The new queue pair before it is in use. It goes before its reservation.
struct NextQueuePair {
    std::shared_ptr<Lane::Impl> lane;
    Reservation reservation;
    InboxPlace place;                                // for the sender
    std::unique_ptr<NotePool::Note> note = nullptr;  // of another lane; its own needs no other
    std::unique_ptr<QueuePairHandle> handle = nullptr;
};

struct Move {
    enum class State : std::uint8_t { draining, offered, connecting, connected, joined, ended };

    // `until`: past that it is a loss.
    Move(NextQueuePair made, Deadline limit) : next(std::move(made)), until(limit) {}
    ~Move() {
        if (outcome != nullptr) outcome->tell(Errc::peer_lost, "the connection ended meanwhile");
    }
    Move(const Move&) = delete;
    Move& operator=(const Move&) = delete;

    // The thread that connects returns, or there is none.
    bool thread_is_over() const noexcept { return !connecting.valid() || is_tried.load(); }
    // This side has said its move.
    bool is_said() const noexcept { return state != State::draining && state != State::ended; }

    State state = State::draining;
    NextQueuePair next;
    Deadline until;
    std::optional<Hello> heard;            // the peer's move
    bool is_peer_ready = false;            // and its ready
    std::shared_ptr<MoveOutcome> outcome;  // null: the peer asked
    std::atomic<bool> is_tried{false};     // by the thread
    std::future<void> connecting;          // goes first: it waits for the thread
};

}  // namespace verbatim

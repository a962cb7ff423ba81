// An arrival receiver arms one direction of a connection, so that its lane may stop polling that
// connection's memory, or sleep: docs/arrival.md, "The receiver: a connection becomes armed".
// Threads: the lane's. Data path.
#pragma once

#include <cstdint>

#include "../queue/send_path.hpp"
#include "arrival_words.hpp"

namespace verbatim {

// Where the peer's words are.
struct RemoteArrival {
    mlx5::RemoteMemory armed, posted;
};

class ArrivalReceiver {
  public:
    enum class State : std::uint8_t {
        hot,       // polled
        arming,    // polled; the generation is written, the read under way
        settling,  // polled; things that the read named are missing
        armed,     // an immediate will come
        noted,     // the peer writes a note with each thing
    };
    // What a generation asks for.
    enum class Wake : std::uint8_t { by_immediate, by_note };

    // `copy`: where the read ends; `copy_key`: its local key.
    ArrivalReceiver(SendPath& path, const RemoteArrival& remote, const PostedCopy& copy,
                    std::uint32_t copy_key)
        : path_(path), remote_(remote), copy_(copy), copy_key_(copy_key) {}

    State state() const noexcept { return state_; }
    // No polls are needed until an immediate comes.
    bool is_armed() const noexcept { return state_ == State::armed; }

    // Posts both receives. Once, before the peer knows a generation.
    Errc begin() noexcept;
    // Another queue pair, before begin(): hot, and generations count from 0 again.
    void restart() noexcept {
        issued_ = taken_ = 0;
        state_ = State::hot;
    }

    bool is_noted() const noexcept { return state_ == State::noted; }
    // The last generation asked for notes, which may come already.
    bool takes_notes() const noexcept { return state_ != State::hot && wake_ == Wake::by_note; }
    // Neither arming nor settling: only the ring and the credit may have something new.
    bool is_at_rest() const noexcept {
        return state_ != State::arming && state_ != State::settling;
    }
    // Hot or noted, and the last read has completed: a generation may be issued.
    bool can_arm() const noexcept {
        return (state_ == State::hot || state_ == State::noted) && path_.retired() >= read_number_;
    }
    // Issues the next generation. Errors: those of a failed queue pair; would_block changes
    // nothing.
    Errc arm(Wake wake) noexcept;
    // Noted: issues a generation that asks for nothing, and is hot. Errors: as above. It has no
    // part of the reserve: there is no hurry.
    Errc silence() noexcept;
    // Arming: true once the read has completed, and the words are valid to look up to.
    bool has_read() noexcept {
        if (state_ == State::arming && path_.retired() >= read_number_) take_words();
        return state_ == State::settling;
    }
    // Settling: what memory must hold.
    std::uint64_t awaited(Thing thing) const noexcept {
        return words_.positions[static_cast<std::size_t>(thing)];
    }
    // Settling: memory holds it.
    void settle() noexcept { state_ = wake_ == Wake::by_immediate ? State::armed : State::noted; }

    // An immediate came; the connection is hot. Errors: protocol_error, for good.
    Errc take_immediate(std::uint32_t immediate) noexcept;

    // Generations that were issued, for counters and tests.
    std::uint64_t issued() const noexcept { return issued_; }

  private:
    void take_words() noexcept;
    Errc issue(std::uint64_t kind) noexcept;

    SendPath& path_;
    RemoteArrival remote_;
    const PostedCopy& copy_;
    std::uint32_t copy_key_;
    PostedWords words_;  // read once from copy_
    std::uint64_t issued_ = 0, taken_ = 0;
    std::uint64_t read_number_ = 0;
    State state_ = State::hot;
    Wake wake_ = Wake::by_immediate;  // of the last generation
};

}  // namespace verbatim

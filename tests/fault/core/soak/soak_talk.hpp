// A talk is one connection of the soak test as one side sees it, beside the model that says which
// messages must come. Threads: the lane's.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include <verbatim/core/context.hpp>

#include "soak_ledger.hpp"
#include "soak_remote.hpp"
#include "soak_text.hpp"

namespace verbatim::test::soak {

using Random = std::mt19937_64;

// The settings of a run.
struct Plan {
    std::uint64_t seed = 1;
    std::uint64_t operations = 10000;  // of each side
    std::size_t talks = 5;             // connections at a time
    bool may_lose = false;             // connections may fail, by faults or death of a process
    bool agrees = true;                // at the end both sides wait for all that was sent
    unsigned closes = 1500;            // one of so many operations closes a connection
};

// What a side's talks share.
struct Place {
    const Plan& plan;
    Ledger& ledger;
    std::uint8_t side;
    Random& random;
    bool failed = false;
};

// A message that is kept for longer than its turn, perhaps than its connection.
struct Held {
    Message message;
    Name name;
};

class Talk {
  public:
    // `id`: known to the calling side; the other one is told by the first message.
    static constexpr std::uint32_t kUnknown = ~0u;
    Talk(Place& place, Connection made, std::uint32_t id);
    ~Talk();
    Talk(const Talk&) = delete;
    Talk& operator=(const Talk&) = delete;

    Connection& connection() noexcept { return connection_; }
    std::uint32_t id() const noexcept { return id_; }
    // It knows its peer.
    bool has_met() const noexcept { return received_[kProgram] != 0; }

    // Each does one thing, or nothing where there is no room.
    void send();
    void open_claim();
    void close_claim();
    void answer();
    // A read or an addition, where there is room; and those that are done.
    void use_remote();
    void look_at_remote();
    // To another lane of its side, which is told of. Only talks that lend nothing do.
    bool may_move() const noexcept { return has_met() && !lends(); }
    void move_to(const Lane& lane);
    void release(std::size_t most);
    // Up to so many. False: the connection has ended.
    bool receive(int most);
    bool is_muted() const noexcept { return muted_ != 0; }
    void mute(unsigned turns) noexcept { muted_ = turns; }
    void unmute() noexcept { muted_ = 0; }
    void take_turn() noexcept { muted_ -= muted_ != 0 ? 1 : 0; }
    // Finishes claims; true: nothing waits to be sent.
    bool finish_sending();
    // All that either side had accepted has come.
    bool has_settled() const;

    // Nothing of this side holds messages up.
    bool has_remote() const noexcept { return !remote_.is_idle(); }
    bool is_idle() const { return id_ != kUnknown && held_.empty() && to_answer_ == 0; }
    // A message is on its way.
    bool awaits_message() const;

    // Before it is destroyed: by this side, or since the peer has ended it. Messages that are held
    // move to `kept`.
    void leave(std::vector<Held>& kept);
    // Compares an end with the model.
    void check_end();

    static void check(Place& place, const Held& held);

  private:
    struct Intro {
        std::uint32_t id = 0;
        std::uint32_t reserved = 0;
        RemoteExtent extent;
    };
    struct Open {
        Claim claim;
        Name name;
        bool doomed;
    };
    static constexpr std::size_t kMarkSlots = 8, kMarkBytes = 256;

    void introduce();
    RemoteExtent lend();
    void meet(const Message& message);
    void take(Message& message);
    void check_mark(const Text& text);
    bool write_mark(const Text& text);
    Errc post(const Text& text);
    void commit(Open& open);
    void accepted(Stream stream) noexcept;
    Name next(Stream stream) const noexcept { return {id_, place_.side, stream, sent_[stream]}; }
    Entry& entry() const noexcept { return place_.ledger.entries[id_]; }
    // Connections with grants do not move. Both sides know by the number which lend.
    bool lends() const noexcept { return id_ % 3 != 2; }
    // The peer has left, or connections fail.
    bool may_end() const noexcept {
        return place_.plan.may_lose || entry().left[1 - place_.side] != kStays;
    }
    bool coin(unsigned of) { return place_.random() % of == 0; }
    void expect(bool good, const std::string& what) const;

    Place& place_;
    Connection connection_;
    std::uint32_t id_;
    Arena &receive_arena_, &arena_;
    std::shared_ptr<std::byte> lent_;  // memory that the peer writes
    Grant grant_;
    std::byte* source_;  // of this side's writes
    RemoteExtent target_;
    Remote remote_;
    std::uint64_t sent_[kStreams] = {}, received_[kStreams] = {};
    std::uint64_t marked_ = 0, marks_seen_ = 0;
    std::uint64_t refused_ = 0;  // claims that could not be committed any more
    bool is_written_ = false;    // the mark of the next message
    unsigned to_answer_ = 0, muted_ = 0, ends_ = 0, patience_ = 0;
    std::vector<Open> claims_;
    std::vector<Held> held_;
};

}  // namespace verbatim::test::soak

// What the graphs that go out on one connection share: their numbers, what the peer was told and
// says, the memory that it lends. Threads: the lane's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/classes/sent_classes.hpp>
#include <verbatim/objects/graph/staging_buffers.hpp>

#include "windows_borrowed.hpp"

namespace verbatim::objects {

// The receiver wants no more of a graph.
struct RefusedGraph {
    std::uint64_t id = 0;
    Errc code = Errc::ok;
    std::string reason;
};

// Registered buffers for objects outside of the arena that are too large to be staged.
class BounceBuffers {
  public:
    static constexpr std::size_t kBytes = std::size_t{256} << 10;

    explicit BounceBuffers(std::shared_ptr<Arena> arena) noexcept : arena_(std::move(arena)) {}
    ~BounceBuffers();
    BounceBuffers(const BounceBuffers&) = delete;
    BounceBuffers& operator=(const BounceBuffers&) = delete;
    // Null: all of them wait for their writes to retire.
    std::byte* take();
    // Its writes were accepted; or none will be.
    void put(std::byte* buffer) noexcept;
    // All accepted writes have retired.
    void set_retired() noexcept;

  private:
    static constexpr std::size_t kMost = 4;
    std::shared_ptr<Arena> arena_;
    std::size_t made_ = 0;
    std::array<std::byte*, kMost> free_{}, under_way_{};
    std::size_t free_count_ = 0, under_way_count_ = 0;
};

// Copies that writes may read after the operation and the link have ended: the connection has them
// until it has drained.
struct SentBuffers {
    explicit SentBuffers(const std::shared_ptr<Arena>& arena) : bounce(arena), parked(arena) {}
    BounceBuffers bounce;
    StagingBuffers parked;
};

class Outgoing {
  public:
    explicit Outgoing(Connection& connection);

    static bool is_answer(std::uint8_t kind) noexcept {
        return kind >= wire::kLend && kind <= wire::kReclaim;
    }
    // A message of a receiver. Throws Breach.
    void receive(Connection& connection, const Message& message);
    bool must_settle() const noexcept {
        return !cancelled_.empty() || !given_back_.empty() || hold_.is_on;
    }
    // Gives all windows back, and begins no graph for a moment. False: a graph is on its way, or
    // the receiver was not told yet. `is_asked`: the receiver moves, and lends nothing any more.
    bool withdraw(Connection& connection, bool is_asked);
    // Sends what found no room.
    void settle(Connection& connection) noexcept;

    // The number of the next graph whose first message is sent; begin() once that was accepted.
    std::uint64_t next_id() const noexcept { return begun_ + 1; }
    void begin_eager() noexcept { ++begun_; }
    void begin_streamed() { open_.push_back(++begun_); }
    // Not while the receiver wants its windows back for good: with graph after graph there would
    // be no moment for that. Nor before it was told of those given back: behind the beginning of
    // a graph that is a breach.
    bool may_begin() noexcept;
    // A streamed graph has ended; `cancelled`: the receiver must be told. Null: the connection has
    // ended.
    void end(Connection* connection, std::uint64_t id, bool cancelled) noexcept;
    const RefusedGraph* refusal_of(std::uint64_t id) const noexcept;

    bool is_told(std::uint64_t fingerprint) const noexcept;
    void set_told(std::uint64_t fingerprint) { told_.push_back(fingerprint); }

    // At most so many slots side by side for a message that is being composed, until they are
    // taken, or a reclaim of the receiver comes, which has `slots.count` become 0. False: there are
    // none. Never blocks.
    bool place(Connection& connection, TakenSlots& slots, std::uint32_t count);
    void unplace(TakenSlots& slots) noexcept;
    // They become an image's.
    TakenSlots take_placed(TakenSlots& slots) noexcept;

    // Of all walks, also of those whose tables outlive the connection.
    const std::shared_ptr<SentClasses> classes = std::make_shared<SentClasses>();
    BorrowedWindows windows;
    const std::shared_ptr<SentBuffers> buffers;
    std::vector<std::byte> scratch;  // of messages
    std::uint32_t sends = 0;         // eager ones
    const void* teller = nullptr;    // the operation that tells a layout

  private:
    void take_refusal(std::span<const std::byte> payload);
    void take_reclaim(Connection& connection, std::span<const std::byte> payload);
    void hold(std::chrono::milliseconds time) noexcept;
    void give_up(std::uint32_t window);
    void give_all();
    void end_hold() noexcept;

    std::uint64_t begun_ = 0;
    std::vector<std::uint64_t> open_;
    std::vector<RefusedGraph> refused_;
    std::vector<std::uint64_t> told_;
    std::vector<TakenSlots*> placed_;
    std::uint64_t asked_ = 0;  // changes of the windows when room was asked for, and one
    // Not told yet. Lists take no memory while they are empty.
    std::list<std::uint64_t> cancelled_;
    std::list<wire::Return> given_back_;
    struct {
        bool is_on = false;  // no graph begins
        Deadline until;
        bool is_wanted = false;  // the receiver wants all windows back
    } hold_;
};

}  // namespace verbatim::objects

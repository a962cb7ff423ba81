// This side's half of a connection: queue pair, ring memory that the peer writes, and, once the
// peer is known, the lane member over them. Threads: one at a time; from join() on the lane's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include <verbatim/core/config.hpp>
#include <verbatim/driver/device.hpp>

#include "../arena/region_table.hpp"
#include "../arrival/posted_lines.hpp"
#include "../bootstrap/hello.hpp"
#include "../lane/lane_impl.hpp"
#include "../lane/lane_member.hpp"
#include "../queue/reservation.hpp"
#include "context_impl.hpp"

namespace verbatim {

// A sparse block that is one region.
class RegisteredBlock {
  public:
    // `bytes`: whole pages. Throws what the blocks and the device throw.
    RegisteredBlock(Device& device, SparseBlocks& blocks, std::size_t bytes, Access access);
    ~RegisteredBlock();
    RegisteredBlock(const RegisteredBlock&) = delete;
    RegisteredBlock& operator=(const RegisteredBlock&) = delete;
    // Ends the peer's right to it. False: a process is stopped in the middle of a copy there. The
    // memory stays until the destructor.
    bool release() noexcept { return verbatim::release(*region_, "message ring"); }
    std::byte* address() const noexcept { return block_.at; }
    const MemoryRegion& region() const noexcept { return *region_; }

  private:
    SparseBlocks& blocks_;
    SparseBlocks::Block block_;
    std::unique_ptr<MemoryRegion> region_;
};

// What an endpoint is made for.
struct LaneOfEndpoint {
    std::shared_ptr<Lane::Impl> lane;  // what any thread may use of it
    Reservation reservation;
};

// In the lane's thread. Throws Error(out_of_memory).
inline LaneOfEndpoint make_room(std::shared_ptr<Lane::Impl> lane, const Config& config) {
    Reservation reservation(lane->queue(), config);
    return {std::move(lane), std::move(reservation)};
}

// A queue pair that takes the place of another, connected to `peer`, and its lane.
struct Replacement {
    Reservation reservation;
    std::unique_ptr<QueuePairHandle> queue_pair;
    Lane::Impl& lane;
    const Hello& peer;
    std::unique_ptr<NotePool::Note> note;  // null: the old one's
};

class Endpoint {
  public:
    // `local_address`: as QueuePairOptions has it. Throws what the device throws.
    Endpoint(Context::Impl& context, LaneOfEndpoint made_for,
             const std::array<std::uint8_t, 16>& local_address);
    // Leaves the lane, if it joined. Then in the lane's thread.
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    // What the peer needs to know of this side.
    Hello hello() const { return hello_of(*queue_pair_, mode_, nullptr); }
    // Connects the queue pair, and takes the memory that the peer's sizes ask for. Throws what
    // QueuePairHandle::connect throws.
    void connect(const Hello& peer, Deadline deadline);
    // The same in a millisecond. False: it takes longer, and connect() must be called.
    bool connect_soon(const Hello& peer);

    // Once connected: builds the data path on the lane's queue. Throws Error.
    LaneMember& join(LaneQueue& queue, PolledSet& polled);
    // Ends the data path: the queue pair fails, and everything outstanding is polled.
    void leave() noexcept;

    // Once joined:
    LaneMember& member() noexcept { return *member_; }
    QueuePairHandle& queue_pair() noexcept { return *queue_pair_; }
    // Ends RemoteAccess, also where a move has lost the queue pair.
    void close_remote() noexcept {
        if (queue_pair_ != nullptr) queue_pair_->close_remote();
    }
    // What the peer said last.
    const Hello& peer() const noexcept { return peer_; }
    // That the peer takes.
    std::uint64_t longest_message() const noexcept { return peer_.said.longest_message; }

    // -- For a move to another queue pair (docs/moving.md) --
    // Throws what the device throws.
    std::unique_ptr<QueuePairHandle> make_queue_pair(
        const Reservation& reservation, const std::array<std::uint8_t, 16>& local_address) const;
    // The hello with this queue pair, on a lane of this mode. `note`: as Replacement has it.
    Hello hello_of(const QueuePairHandle& queue_pair, LaneMode mode,
                   const NotePool::Note* note) const;
    // Throws Error(unsupported) unless the connected queue pair writes in order. Any thread.
    void check_order(const QueuePairHandle& queue_pair) const;
    // All requests of the queue pair have retired: what happens to it now is nobody's news.
    void part() noexcept { user_->set_owner(nullptr); }
    // It is used on, after all.
    void stay() noexcept;
    // Ends the queue pair, in its lane's thread: it fails, is flushed, and goes.
    void drop_queue_pair() noexcept;
    // Takes the other one after that, in its lane's thread. Throws Error; then there is no data
    // path.
    void replace(Replacement by);

  private:
    void meet(const Hello& peer);
    PeerWords& words() const noexcept { return incoming_->line.words(); }
    void flush() noexcept;
    void retire(std::unique_ptr<NotePool::Note> note);
    // Null: both sides always poll.
    PostedWords* posted() const noexcept {
        const bool polls = mode_ == LaneMode::busy && (peer_.features & Hello::kAlwaysPolls) != 0;
        return polls ? nullptr : &posted_.words();
    }
    MemberParts parts(LaneQueue& queue, PolledSet& polled);

    Context::Impl& context_;
    LaneMode mode_;
    // What the peer writes: the ring, of which an idle side reads one page; its words and note.
    struct Incoming {
        RegisteredBlock ring;
        PostedLines::PeerLine line;
        std::unique_ptr<NotePool::Note> note;
    };
    std::shared_ptr<Incoming> incoming_;  // in quarantine once it has left
    std::list<Quarantine::Lot> lot_{1};
    PostedLines::Line posted_;
    std::optional<RegisteredBlock> mirror_;  // of the peer's ring; only the local device reads it
    std::uint64_t tag_key_;
    Hello peer_;
    std::optional<Reservation> reservation_;  // for the queue pair
    // Behind all memory that it may write: it goes first.
    std::unique_ptr<QueuePairHandle> queue_pair_;
    LaneQueue* queue_ = nullptr;  // while it is attached
    bool has_joined_ = false;     // and not left
    std::unique_ptr<QueueUser> user_;
    std::optional<LaneMember> member_;
};

}  // namespace verbatim

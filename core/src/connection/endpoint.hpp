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

#include "../arrival/posted_lines.hpp"
#include "../bootstrap/hello.hpp"
#include "../lane/lane_member.hpp"
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
    bool release() noexcept;
    std::byte* address() const noexcept { return block_.at; }
    const MemoryRegion& region() const noexcept { return *region_; }

  private:
    SparseBlocks& blocks_;
    SparseBlocks::Block block_;
    std::unique_ptr<MemoryRegion> region_;
};

// Entries of a lane's completion queue that a connection takes. They are reserved in the lane's
// thread before the endpoint is made.
constexpr std::uint32_t completions_of(const Config& config) noexcept {
    return config.ring.send_blocks + QueueUser::kReceives;
}

// What an endpoint needs of its lane to be made. Any thread.
struct LaneOfEndpoint {
    CompletionQueueHandle& completions;  // with entries reserved
    LaneMode mode;
};

class Endpoint {
  public:
    // `local_address`: as QueuePairOptions has it. Throws what the device throws.
    Endpoint(Context::Impl& context, const LaneOfEndpoint& lane,
             const std::array<std::uint8_t, 16>& local_address);
    // Leaves the lane, if it joined. Then in the lane's thread.
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    // What the peer needs to know of this side.
    Hello hello() const;
    // Connects the queue pair, and takes the memory that the peer's sizes ask for. Throws what
    // QueuePairHandle::connect throws.
    void connect(const Hello& peer, Deadline deadline);

    // Once connected: builds the data path on the lane's queue. Throws Error.
    LaneMember& join(LaneQueue& queue, PolledSet& polled);
    // Ends the data path: the queue pair fails, and everything outstanding is polled.
    void leave() noexcept;

    // Once joined:
    LaneMember& member() noexcept { return *member_; }
    QueuePairHandle& queue_pair() noexcept { return *queue_pair_; }
    // That the peer takes.
    std::uint64_t longest_message() const noexcept { return peer_.longest_message; }

  private:
    // Throws Error(unsupported).
    void check_order() const;
    PeerWords& words() const noexcept {
        return *reinterpret_cast<PeerWords*>(incoming_->address());
    }
    void flush() noexcept;
    MemberParts parts(LaneQueue& queue, PolledSet& polled);

    Context::Impl& context_;
    LaneMode mode_;
    // The peer's words, then the ring; the peer writes it. In quarantine once it has left.
    std::shared_ptr<RegisteredBlock> incoming_;
    std::list<Quarantine::Lot> lot_{1};
    PostedLines::Line posted_;
    std::optional<RegisteredBlock> mirror_;  // of the peer's ring; only the local device reads it
    std::uint64_t tag_key_;
    Hello peer_;
    // Behind all memory that it may write: it goes first.
    std::unique_ptr<QueuePairHandle> queue_pair_;
    LaneQueue* queue_ = nullptr;  // while it is attached
    std::optional<QueueUser> user_;
    std::optional<LaneMember> member_;
};

}  // namespace verbatim

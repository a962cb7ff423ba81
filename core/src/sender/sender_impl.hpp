// The queue behind a sender: slots of fixed size, a list of free ones and a list of filled ones.
// Each filled slot was taken from the free list by one producer; the lane's thread empties it.
// Threads: try_send() from any; the rest from the lane's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/lockfree/queue.hpp>

#include <verbatim/core/inbox_item.hpp>
#include <verbatim/core/sender.hpp>

#include "../lane/lane_impl.hpp"
#include "../ring/ring_sender.hpp"

namespace verbatim {

// Posts one message of a sender. Errors as MessageRing::try_send.
struct SenderTarget {
    void* owner = nullptr;
    Errc (*send)(void* owner, const OutgoingMessage& message) noexcept = nullptr;
};

class Sender::Impl : public InboxItem, public std::enable_shared_from_this<Sender::Impl> {
  public:
    static constexpr std::size_t kSlots = 256, kMostBytes = 4096;

    // `most`: bytes of a message of the connection. Throws std::bad_alloc.
    Impl(const std::shared_ptr<Lane::Impl>& lane, const SenderTarget& target, std::size_t most);

    Errc try_send(const OutgoingMessage& message) noexcept;
    std::size_t max_message_bytes() const noexcept { return most_; }

    // Something waits for room or for the lane.
    bool has_queued() const noexcept { return blocked_ || queued_.load(std::memory_order_acquire); }
    // Posts what is queued, as far as there is room. The caller keeps it alive.
    void drain() noexcept;
    // The connection is about to change its lane. True: the old one does not know it any more, and
    // no producer hands it to that. Else once more, after a poll of that lane.
    bool park() noexcept;
    // It goes on, on the lane of this place; null: where it was.
    void unpark(InboxPlace* place) noexcept;
    // The connection ended: nothing is accepted any more.
    void end(Errc why) noexcept;

  private:
    struct Slot {
        std::uint32_t bytes;
        std::uint8_t channel, kind;
    };
    using Indices = boost::lockfree::queue<std::uint32_t, boost::lockfree::capacity<kSlots>>;
    void fill(std::uint32_t index, const OutgoingMessage& message) noexcept;
    Errc announce() noexcept;
    // Why there is no room: the lane empties it, but never in a forked child.
    Errc refusal() noexcept;
    void leave_inbox() noexcept;
    void wait_for_room() noexcept;
    bool post(std::uint32_t index) noexcept;
    std::byte* payload_of(std::uint32_t index) const noexcept {
        return payloads_.get() + index * most_;
    }

    InboxPlace place_;     // read by the producer that set `queued_`
    SenderTarget target_;  // owner: the lane's thread
    std::size_t most_;
    std::vector<Slot> slots_;
    std::unique_ptr<std::byte[]> payloads_;
    Indices free_, filled_;
    std::atomic<bool> queued_{false};  // in the lane's inbox, or parked
    std::shared_ptr<Impl> self_;       // while queued: alive
    std::atomic<Errc> ended_{Errc::ok};
    std::uint32_t next_ = 0;  // blocked: the slot that found no room
    bool blocked_ = false;
    bool parks_ = false, is_parked_ = false;  // between lanes: `queued_` stays set
    const std::uint64_t generation_ = fork_generation();
};

}  // namespace verbatim

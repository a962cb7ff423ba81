// A channel slab is a memory file with the incoming rings of many queue pairs, all for one peer
// device, and nothing else: a work board, then slots of one size. So ten thousand queue pairs need
// a handful of files, descriptors and mappings. The file is sparse; the pages of a slot are made
// present when it is taken, so that exhaustion is an error then and no signal later. Control path,
// any thread, but for work() and find().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "../host/link_message.hpp"
#include "../host/peer_process.hpp"
#include "../host/shared_memory.hpp"
#include "work_board.hpp"

namespace verbatim::softnic {

class ProgressList;
class QueuePair;

// Of the board, at the start of the file.
inline constexpr std::size_t kBoardBytes = 4096;
static_assert(sizeof(WorkBoard) <= kBoardBytes);

class ChannelSlab {
  public:
    // Throws Error(out_of_memory).
    ChannelSlab(std::size_t slot_bytes, std::uint32_t slots);
    ~ChannelSlab();
    ChannelSlab(const ChannelSlab&) = delete;
    ChannelSlab& operator=(const ChannelSlab&) = delete;

    // A slot, its pages present; none: all are in use. Throws Error(out_of_memory).
    std::optional<std::uint32_t> take();
    // `lent`: a sender may still write there; it is taken again when that has let go, or its
    // process has ended. So the access word of a peer that is stopped inside stays this slot's
    // (docs/revocation.md).
    void give_back(std::uint32_t slot, bool lent,
                   std::shared_ptr<const PeerProcess> sender) noexcept;
    // Slots that senders have not let go of.
    std::size_t closing() const noexcept;

    const std::shared_ptr<SharedMemory>& memory() const noexcept { return memory_; }
    std::size_t offset(std::uint32_t slot) const noexcept {
        return kBoardBytes + slot * slot_bytes_;
    }
    std::byte* at(std::uint32_t slot) const noexcept { return memory_->data() + offset(slot); }

    // Whose work the marks of the slot are.
    void enlist(std::uint32_t slot, QueuePair& pair);
    // Afterwards nobody who takes marks touches the queue pair. False: a round that may is not over
    // before the deadline; to be called again.
    bool unlist(std::uint32_t slot, Instant deadline) noexcept;
    // Lists whose rounds take the marks.
    void add_reader(ProgressList& list);
    void remove_reader(const ProgressList& list) noexcept;

    // Data path: calls `found` with each queue pair that the peer has marked.
    template <class Found>
    void take_marks(Found&& found) noexcept {
        board_->take([&](std::uint32_t slot) {
            if (QueuePair* const pair = find(slot)) found(*pair);
        });
    }

  private:
    static constexpr std::uint32_t kChunk = 64;
    // A slot that was given back, and where a sender may still write.
    struct Closing {
        std::uint32_t slot;
        std::shared_ptr<const PeerProcess> sender;  // null: not known
    };
    using Pairs = std::array<std::atomic<QueuePair*>, kChunk>;

    QueuePair* find(std::uint32_t slot) const noexcept {
        const Pairs* const pairs = pairs_[slot / kChunk].load(std::memory_order_acquire);
        return pairs == nullptr ? nullptr : (*pairs)[slot % kChunk].load();
    }
    bool let_go(std::uint32_t slot) const noexcept;
    void collect() noexcept;

    const std::size_t slot_bytes_;
    const std::uint32_t slots_;
    const std::uint64_t generation_ = fork_generation();
    std::shared_ptr<SharedMemory> memory_;
    WorkBoard* board_;
    std::array<std::atomic<Pairs*>, WorkBoard::kSlots / kChunk> pairs_{};

    mutable std::mutex mutex_;         // guards what follows
    std::uint32_t fresh_ = 0;          // slots from here on were never taken
    std::vector<std::uint32_t> free_;  // and these neither any more
    std::vector<Closing> closing_;
    std::vector<ProgressList*> readers_;
};

// A slot, until it is destroyed.
class ChannelSlot {
  public:
    ChannelSlot() = default;
    ChannelSlot(std::shared_ptr<ChannelSlab> slab, std::uint32_t number) noexcept
        : slab_(std::move(slab)), number_(number) {}
    ChannelSlot(ChannelSlot&& other) noexcept
        : slab_(std::exchange(other.slab_, nullptr)),
          number_(other.number_),
          lent_(other.lent_),
          sender_(std::move(other.sender_)) {}
    ChannelSlot& operator=(ChannelSlot&& other) noexcept {
        std::swap(slab_, other.slab_);
        std::swap(number_, other.number_);
        std::swap(lent_, other.lent_);
        std::swap(sender_, other.sender_);
        return *this;
    }
    ~ChannelSlot() {
        if (slab_ != nullptr) slab_->give_back(number_, lent_, std::move(sender_));
    }
    explicit operator bool() const noexcept { return slab_ != nullptr; }
    std::byte* data() const noexcept { return slab_->at(number_); }
    std::uint64_t offset() const noexcept { return slab_->offset(number_); }
    std::uint32_t number() const noexcept { return number_; }
    const std::shared_ptr<ChannelSlab>& slab() const noexcept { return slab_; }
    // A sender was told of it.
    void set_lent(std::shared_ptr<const PeerProcess> sender) noexcept {
        lent_ = true;
        sender_ = std::move(sender);
    }

  private:
    std::shared_ptr<ChannelSlab> slab_;
    std::uint32_t number_ = 0;
    bool lent_ = false;
    std::shared_ptr<const PeerProcess> sender_;
};

// The slabs of a device, by peer. One that nobody uses any more goes.
class ChannelSlabs {
  public:
    // Throws Error(out_of_memory): also where the peer has not let go of kMostClosing slots.
    ChannelSlot take(const Nonce& peer, std::size_t bytes);
    static constexpr std::size_t kMostClosing = 16384;

  private:
    std::mutex mutex_;
    std::map<std::pair<Nonce, std::size_t>, std::vector<std::weak_ptr<ChannelSlab>>> slabs_;
};

}  // namespace verbatim::softnic

// The windows that this side lends to the peer of one connection, for graphs that come in
// (docs/graphs.md, "Windows"). Each slot of a window has one owner at a time. Threads: the lane's,
// but for WindowMemory::release().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/grant.hpp>

#include "budget.hpp"

namespace verbatim::objects {

// Counts what was released, so that a look at it costs one load.
using ReleaseCount = std::shared_ptr<std::atomic<std::uint64_t>>;

// The memory of a window. Alive while its grant has not ended or a received graph lies in it.
class WindowMemory {
  public:
    enum Slot : std::uint8_t { with_peer, filled, released };

    // `data`: memory of the arena for so many slots, which becomes its own.
    WindowMemory(std::shared_ptr<Arena> arena, std::byte* data, std::uint32_t slots,
                 ReleaseCount releases);
    ~WindowMemory();
    WindowMemory(const WindowMemory&) = delete;
    WindowMemory& operator=(const WindowMemory&) = delete;

    std::byte* data() const noexcept { return data_; }
    std::uint32_t slots() const noexcept { return slots_; }
    std::uint64_t bytes() const noexcept { return slots_ * wire::kSlotBytes; }
    Slot at(std::uint32_t slot) const noexcept {
        return static_cast<Slot>(owners_[slot].load(std::memory_order_acquire));
    }
    void set(std::uint32_t slot, Slot owner) noexcept {
        owners_[slot].store(owner, std::memory_order_relaxed);
    }
    bool all_are(std::uint32_t slot, std::uint32_t count, Slot owner) const noexcept;
    // A graph needs them no more. Any thread.
    void release(std::uint32_t slot, std::uint32_t count) noexcept;

  private:
    std::shared_ptr<Arena> arena_;
    std::byte* data_ = nullptr;
    std::uint32_t slots_;
    std::unique_ptr<std::atomic<std::uint8_t>[]> owners_;
    ReleaseCount releases_;
};

// Slots that a graph holds.
struct HeldSlots {
    std::shared_ptr<WindowMemory> window;
    std::uint32_t slot = 0;
    std::uint32_t count = 0;

    std::byte* data() const noexcept { return window->data() + slot * wire::kSlotBytes; }
    std::uint64_t bytes() const noexcept { return count * wire::kSlotBytes; }
};

class LentWindows {
  public:
    LentWindows(Connection& connection, std::shared_ptr<Budget> budget);
    ~LentWindows();
    LentWindows(const LentWindows&) = delete;
    LentWindows& operator=(const LentWindows&) = delete;

    enum class Lent : std::uint8_t { yes, over_budget, no_memory, growing };
    struct Wish {
        std::uint64_t slots = 0;          // side by side
        std::uint64_t welcome_slots = 0;  // if there is budget for more
        bool is_oldest = false;           // the graph that wants them is the context's oldest
    };
    // Begins to lend. growing: not yet. Memory was populated for it, or must be, a part at a time;
    // or all was withdrawn just now. no_memory: `lack` is what the arena said. Throws Error: what a
    // grant does.
    Lent lend(Connection& connection, const Wish& wish, std::optional<Error>& lack);
    // A segment of the arena may be populated, once.
    void allow_growth(bool is_allowed) noexcept { may_grow_ = is_allowed; }
    // One more window, if the peer has fewer slots left: for messages that are composed. False: it
    // is to be called again, since memory is populated for it.
    bool lend_ahead(Connection& connection, std::uint64_t slots);
    // The slots become a graph's. False: they are not with the peer.
    bool bind(const wire::Binding& binding, HeldSlots& slots) noexcept;
    // An unfinished graph has come in, or was dropped: its slots count no more.
    void discount(std::uint64_t bytes) noexcept { budget_->give(bytes); }

    // Hands released slots back to the peer, or ends windows for which there is no budget. True if
    // the peer has more now. Never blocks.
    bool hand_back(Connection& connection);
    // Tells the peer of windows that are ready. Never blocks.
    void tell(Connection& connection);
    bool has_untold() const noexcept { return untold_; }
    // What the peer was told of: windows that it may use, slots that it got back.
    std::uint64_t changes() const noexcept { return changes_; }
    std::uint64_t peer_bytes() const noexcept { return peer_slots_ * wire::kSlotBytes; }
    // Asks for windows that the peer does not use, once for each time that memory was short. Less
    // and less often while nothing comes of it: the peer may not be looking.
    void reclaim(Connection& connection) noexcept;
    bool must_reclaim() const noexcept { return lent_ != 0 && budget_->lacks() != seen_.lacks; }
    // The peer gives a window back. For good: it has finished all graphs that lie there, and this
    // side may have dropped the window meanwhile. False: it cannot.
    bool take_back(const wire::Return& said) noexcept;
    // Asks for all of them. True: none is lent any more, and no key of them works. Then none is
    // lent for the moment: a peer that streams graphs would at once have the next.
    bool withdraw(Connection& connection) noexcept;

  private:
    struct Window {
        std::shared_ptr<WindowMemory> memory;  // null: the number is free
        Grant grant;
        std::size_t told_extents = 0;
        bool told = false;
        std::uint32_t told_at = 0;  // changes then
    };

    std::size_t free_number();
    bool tell(Connection& connection, std::size_t number);
    bool hand_back(Connection& connection, std::size_t number);
    void ask(Connection& connection, std::size_t number, std::uint32_t flags) noexcept;
    std::byte* take_memory(std::uint64_t bytes);
    bool is_idle(const Window& window) const noexcept;
    void drop(Window& window) noexcept;
    void note_lender(Connection& connection);
    void forget_lender() noexcept;

    std::shared_ptr<Arena> arena_;
    std::shared_ptr<Budget> budget_;
    ReleaseCount releases_ = std::make_shared<std::atomic<std::uint64_t>>(0);
    std::vector<Window> windows_;
    std::size_t lent_ = 0;            // windows
    std::shared_ptr<Lender> lender_;  // while there are some
    const std::uint64_t most_slots_;  // of a window that is lent ahead
    std::uint64_t peer_slots_ = 0;    // that are with the peer
    std::uint64_t changes_ = 0;
    struct {
        std::uint64_t releases = 0, lacks = 0, changes = 0;
    } seen_;
    struct {
        Clock::time_point withdraws{}, reclaims{};  // for all windows
        std::chrono::milliseconds pause{0};         // after a reclaim
    } asks_again_;
    std::vector<Grant> ending_;  // of windows that were dropped
    bool may_grow_ = false;
    bool untold_ = false;   // some window was not told yet
    bool waiting_ = false;  // released slots could not be handed back
};

}  // namespace verbatim::objects

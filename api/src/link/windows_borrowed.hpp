// The windows that the peer lends to this side, for graphs that go out (docs/graphs.md,
// "Windows"). Nothing that the peer says of them is believed before it was checked. Threads: the
// lane's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <verbatim/core/grant.hpp>

#include "messages/wire.hpp"

namespace verbatim::objects {

// Slots side by side that were taken for a graph.
struct TakenSlots {
    std::uint32_t window = 0;
    std::uint32_t slot = 0;
    std::uint32_t count = 0;
};

class BorrowedWindows {
  public:
    // Messages of the peer; false: they contradict what was told before.
    bool take_lend(std::span<const std::byte> payload);
    bool take_free(std::span<const std::byte> payload);
    // True if the window was given back: it had no slot in use.
    bool give_back(std::uint32_t window) noexcept;
    // The same whatever was written there; no graph is on its way.
    void give_up(std::uint32_t window) noexcept;
    std::size_t count() const noexcept { return windows_.size(); }
    // Or the receiver has dropped it, and said nothing: no slots of it were with this side.
    bool is_lent(std::uint32_t window) const noexcept;

    // The first room for so many slots side by side. False: there is none.
    bool take(std::uint32_t count, TakenSlots& slots) noexcept;
    // They were not told to the peer.
    void untake(const TakenSlots& slots) noexcept;
    // Where byte `offset` of a window is, and how much of it lies there in one piece.
    RemoteExtent place(std::uint32_t window, std::uint64_t offset) const noexcept;
    // Grows whenever the peer lends or frees something.
    std::uint64_t changes() const noexcept { return changes_; }

  private:
    struct Window {
        std::vector<RemoteExtent> extents;
        std::vector<std::uint8_t> used;  // by slot; empty: not lent, or not yet wholly told
        std::uint32_t free = 0;
        std::uint64_t bytes = 0;  // of the extents
    };

    std::vector<Window> windows_;
    std::uint64_t changes_ = 0;
};

}  // namespace verbatim::objects

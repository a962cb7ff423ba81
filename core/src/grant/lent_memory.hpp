// Lent memory is the state of one grant: its windows, and how far they were opened and closed.
// Threads: the lane's while the connection lives, then the quarantine's; the phase is read by any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/core/grant.hpp>
#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "../lane/quarantine.hpp"

namespace verbatim {

class Grants;

// One window, and how it is open or shall be.
struct LentPiece {
    std::unique_ptr<MemoryWindow> window;
    mlx5::WindowBinding binding;
};

// What is agreed of a grant beside its memory.
struct GrantTerms {
    std::shared_ptr<void> owner;
    EndNotice notice;
};

struct LentMemory {
    enum class Phase : std::uint8_t {
        opening,     // requests that open windows found no room yet
        open,        // the peer may be told
        ending,      // windows are being closed
        quarantine,  // the queue pair failed first; the device's barrier is awaited
        ended,       // nothing of the peer can land here
    };

    // It is the parent's grant: what the peer writes lands there, and nothing in a forked child.
    bool is_inherited() const noexcept { return generation != fork_generation(); }
    // Nothing of the peer can land here: windows and owner go.
    void let_go() noexcept {
        pieces.clear();
        phase.store(Phase::ended, std::memory_order_release);
        owner.reset();
    }

    std::shared_ptr<void> owner;
    EndNotice notice = EndNotice::none;
    std::vector<RemoteExtent> extents;
    std::vector<LentPiece> pieces;
    std::size_t opened = 0, closed = 0;  // pieces whose request was accepted
    std::uint64_t last = 0;              // number of the last request that closes
    std::atomic<Phase> phase{Phase::opening};
    Grants* grants = nullptr;  // while the connection lives
    std::weak_ptr<Quarantine> quarantine;
    const std::uint64_t generation = fork_generation();
};

}  // namespace verbatim

// The grants of a connection: each is opened and closed by requests on the connection's queue pair,
// which the lane's polls go on with where they found no room. docs/grants.md has the states.
// Threads: the lane's. Opening allocates; closing does not.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../arena/local_memory.hpp"
#include "../lane/lane_impl.hpp"
#include "end_notices.hpp"
#include "lent_memory.hpp"

namespace verbatim {

class Grants {
  public:
    // All outlive the grants. `peer_hears`: of their ends, where that is wanted.
    Grants(Lane::Impl& lane, LaneMember& member, Device& device,
           std::shared_ptr<Quarantine> quarantine, bool peer_hears)
        : lane_(&lane),
          member_(member),
          device_(device),
          quarantine_(std::move(quarantine)),
          peer_hears_(peer_hears) {}
    Grants(const Grants&) = delete;
    Grants& operator=(const Grants&) = delete;

    // Begins to lend `memory`, which `local` has the regions of. Throws Error.
    std::shared_ptr<LentMemory> lend(const LocalMemory& local, std::span<std::byte> memory,
                                     Access access, GrantTerms terms);
    // Begins the end.
    void end(LentMemory& lent) noexcept;
    void end_all() noexcept;
    // The program closes the connection: no grant ends before end_all(), which follows the bye.
    void hold_ends() noexcept { holds_ends_ = true; }
    // Goes on with what found no room, and lets go what has ended. True: nothing is left to do.
    bool progress() noexcept;
    // The queue pair has failed or gone: all that is lent goes to the quarantine.
    void abandon() noexcept;

    // Something is lent: its windows serve the queue pair on which they were opened.
    bool lends() const noexcept { return lent_ != nullptr && !lent_->list.empty(); }
    const EndNotices& notices() const noexcept { return notices_; }
    // From now on in that lane's thread.
    void move_to(Lane::Impl& lane) noexcept { lane_ = &lane; }

    // Null: nobody has the lane any more.
    std::shared_ptr<Lane::Impl> lane() const noexcept { return lane_->weak_from_this().lock(); }

  private:
    using List = std::list<std::shared_ptr<LentMemory>>;
    // What the quarantine holds.
    struct Abandoned {
        ~Abandoned() {
            for (const auto& lent : list) lent->let_go();
        }
        List list;
        std::size_t bytes = 0;
    };

    void make_pieces(LentMemory& lent, const LocalMemory& local, std::span<std::byte> memory,
                     Access access);
    LentPiece take_window();
    void begin_end(LentMemory& lent, bool peer_hears) noexcept;
    bool go_on(LentMemory& lent) noexcept;
    bool open(LentMemory& lent) noexcept;
    bool close(LentMemory& lent) noexcept;
    void keep_windows(LentMemory& lent) noexcept;

    // Closed windows that are kept for the next grants.
    static constexpr std::size_t kMostSpare = 16;

    Lane::Impl* lane_;
    LaneMember& member_;
    Device& device_;
    std::shared_ptr<Quarantine> quarantine_;
    std::vector<LentPiece> spare_;
    // All that have not ended. Made with the first one, as the quarantine takes it without
    // allocating.
    std::shared_ptr<Abandoned> lent_;
    std::list<Quarantine::Lot> lot_;
    std::size_t busy_ = 0;  // of them, opening or ending
    bool peer_hears_;
    bool holds_ends_ = false;
    EndNotices notices_;
};

}  // namespace verbatim

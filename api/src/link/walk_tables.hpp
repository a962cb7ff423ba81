// The tables of walks that a connection keeps: touching fresh memory costs more than filling it.
// One more operation at the same time gets tables of its own. Threads: the lane's.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/composed/composed_tables.hpp>
#include <verbatim/objects/graph/mending.hpp>
#include <verbatim/objects/graph/packing.hpp>

#include "outgoing.hpp"

namespace verbatim::objects {

class WalkTables {
  public:
    // With the classes that either side of the connection has told of.
    WalkTables(std::shared_ptr<Arena> arena, std::shared_ptr<SentClasses> sent,
               std::shared_ptr<ToldClasses> told, std::shared_ptr<SentBuffers> buffers);

    // The connection's, also after its end.
    const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }
    std::unique_ptr<PackTables> lend_pack();
    void give_back(std::unique_ptr<PackTables> tables) noexcept;
    std::unique_ptr<MendTables> lend_mend();
    void give_back(std::unique_ptr<MendTables> tables) noexcept { mend_ = std::move(tables); }
    // Of walks over composed messages, which do not stop on their way: of those that came, whose
    // keys are compared by the program's functions, and of those that these may send meanwhile.
    ComposedTables& composed_received() { return made(composed_received_); }
    ComposedTables& composed_sent() { return made(composed_sent_); }
    // Writes of a sender that has given up may still read the buffers of the tables that come back
    // next: these are not used again before set_retired().
    void note_unretired() noexcept { unretired_ = true; }
    bool has_unretired() const noexcept { return buffers_->parked.under_way() != 0; }
    void set_retired();

  private:
    static constexpr std::size_t kMostKept = 2;

    static ComposedTables& made(std::unique_ptr<ComposedTables>& tables);

    std::shared_ptr<Arena> arena_;
    std::shared_ptr<SentClasses> sent_;
    std::shared_ptr<ToldClasses> told_;
    std::vector<std::unique_ptr<PackTables>> pack_;  // that are not lent
    std::unique_ptr<MendTables> mend_;
    std::unique_ptr<ComposedTables> composed_received_, composed_sent_;
    std::shared_ptr<SentBuffers> buffers_;
    bool unretired_ = false;
};

}  // namespace verbatim::objects

// The selection of the shared receive queue that an XRC target delivers into. The peer names it
// once for all messages that follow, and is not believed. Threads: the one inside the receive gate.
// Its source is ../xrc_selection.cpp, since it uses the domain.
#pragma once

#include <cstdint>

#include "receive_entries.hpp"

namespace verbatim::softnic {

class XrcSelection {
  public:
    explicit XrcSelection(QueuePairShared& shared) noexcept : shared_(&shared) {}

    // By a record, which it releases. False: the queue pair failed.
    bool name(ReceiveEntries& entries, const RecordHeader& record) noexcept;
    // Its receives, their keys and their completions are used from now on. False: there is no such
    // queue, the queue pair failed.
    bool choose(ReceiveEntries& entries) noexcept {
        return entries.source().queue != nullptr || look_up(entries);
    }
    // Events for completions that were written to a named queue. Within the gate, since the
    // completion queue may go as soon as this queue pair has none of its receives.
    static void announce(ReceiveEntries& entries) noexcept;
    // Control path, gate closed: the shared receive queue goes, and the receive taken from it.
    void forget(ReceiveEntries& entries, const XrcQueue& queue) noexcept;
    void reset(ReceiveEntries& entries) noexcept;

  private:
    bool look_up(ReceiveEntries& entries) noexcept;
    void leave(ReceiveEntries& entries) noexcept;

    QueuePairShared* shared_;
    std::uint32_t number_ = 0;  // that the peer named
};

}  // namespace verbatim::softnic

// The state of the connection manager: what its commands, its peers and its clocks change. Threads:
// under the manager's lock.
#pragma once

#include <chrono>

#include "identifier_table.hpp"
#include "newcomers.hpp"
#include "peer_events.hpp"
#include "watcher.hpp"

namespace verbatim::rdmacm {

struct ManagerState {
    // Throws Error(device_error).
    ManagerState(WatcherService& service, std::chrono::milliseconds time)
        : answer_time(time), watcher(service) {}

    const std::chrono::milliseconds answer_time;  // that a peer may take
    Watcher watcher;
    IdentifierTable identifiers{watcher};
    PeerEvents peers{watcher};
    Newcomers newcomers{identifiers, watcher};
};

}  // namespace verbatim::rdmacm

// Commands that ask about an identifier: addresses, route, attributes for its queue pair. Each
// returns 0 or an errno. Threads: under the manager's lock.
#pragma once

#include <memory>

#include "../channel.hpp"

namespace verbatim::rdmacm {

class Command;
struct ManagerState;

int query_route(ManagerState& state, const std::shared_ptr<Channel>& channel,
                const Command& command);
int query_addresses(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command);
int init_queue_pair(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command);

}  // namespace verbatim::rdmacm

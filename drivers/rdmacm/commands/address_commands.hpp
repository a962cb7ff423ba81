// Commands about addresses and routes. Each returns 0 or an errno. Threads: under the manager's
// lock.
#pragma once

#include <memory>

#include "../channel.hpp"
#include "../endpoint.hpp"
#include "../identifier.hpp"

namespace verbatim::rdmacm {

class Command;
struct ManagerState;

int bind_ip(ManagerState& state, const std::shared_ptr<Channel>& channel, const Command& command);
int bind_address(ManagerState& state, const std::shared_ptr<Channel>& channel,
                 const Command& command);
int resolve_ip(ManagerState& state, const std::shared_ptr<Channel>& channel,
               const Command& command);
int resolve_address(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command);
int resolve_route(ManagerState& state, const std::shared_ptr<Channel>& channel,
                  const Command& command);

// Claims the port. 0 or an errno.
int bind_to(Identifier& identifier, Endpoint endpoint);

}  // namespace verbatim::rdmacm

// Commands about connections and requests for them. Each returns 0 or an errno. Threads: under the
// manager's lock.
#pragma once

#include <memory>

#include "../channel.hpp"

namespace verbatim::rdmacm {

class Command;
struct ManagerState;

int start_listening(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command);
int request_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command);
int accept_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command);
int reject_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command);
int end_connection(ManagerState& state, const std::shared_ptr<Channel>& channel,
                   const Command& command);
int note_establishment(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command);

}  // namespace verbatim::rdmacm

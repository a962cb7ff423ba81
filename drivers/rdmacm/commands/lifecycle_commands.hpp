// Commands about identifiers themselves: making them, their channel, events and options. Each
// returns 0 or an errno. Threads: under the manager's lock.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <memory>

#include "../channel.hpp"

namespace verbatim::rdmacm {

class Command;
struct ManagerState;

int create_identifier(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command);
int destroy_identifier(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command);
int set_option(ManagerState& state, const std::shared_ptr<Channel>& channel,
               const Command& command);
// To `channel` from the old one, which the command names by its descriptor.
int migrate_identifier(ManagerState& state, const std::shared_ptr<Channel>& old,
                       const std::shared_ptr<Channel>& channel, const Command& command);

// As much of an event as the oldest librdmacm reads.
inline constexpr std::size_t kOldestEvent = offsetof(rdma_ucm_event_resp, reserved);
// The channel's next event, which must be there.
int take_event(ManagerState& state, Channel& channel, const Command& command);

}  // namespace verbatim::rdmacm

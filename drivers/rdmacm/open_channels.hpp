// The open channels of the process by descriptor, and which path opens one. Threads: any; asking
// for a descriptor that is no channel costs one load.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "channel.hpp"

namespace verbatim::rdmacm {

inline constexpr const char* kDevicePath = "/dev/infiniband/rdma_cm";

// What open() of kDevicePath returns: a descriptor, or -1 and errno.
int open_channel() noexcept;
// Null if it is none.
std::shared_ptr<Channel> find_channel(int descriptor) noexcept;
// Executes what was written to the channel; 0 or an errno.
int execute(const std::shared_ptr<Channel>& channel, std::span<const std::byte> command) noexcept;
// The program is about to close the descriptor; nothing if it is no channel.
void forget_channel(int descriptor) noexcept;

}  // namespace verbatim::rdmacm

// The open channels of the process by descriptor, and which path opens one. Threads: any; asking
// for a descriptor that is no channel costs one load.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "../channel.hpp"

namespace verbatim::rdmacm {

inline constexpr const char* kDevicePath = "/dev/infiniband/rdma_cm";

// What open() of kDevicePath returns: a descriptor, or -1 and errno.
int open_channel() noexcept;
// Null if it is none, or stands for another file by now.
std::shared_ptr<Channel> find_channel(int descriptor) noexcept;
// Executes what was written to the channel; 0 or an errno. The caller may be cancelled in here.
int execute(const std::shared_ptr<Channel>& channel, std::span<const std::byte> command);
// The program is about to close the descriptor, or has put another file there; nothing if it is no
// channel, and in children.
void forget_channel(int descriptor) noexcept;
void forget_channels(unsigned first, unsigned last) noexcept;

}  // namespace verbatim::rdmacm

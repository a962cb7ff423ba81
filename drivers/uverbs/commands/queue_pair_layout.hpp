// Memory of queue pairs as libmlx5 lays it out and tells of it, and as the engine sees it. Threads:
// any.
#pragma once

#include <rdma/mlx5-abi.h>

#include <cstddef>
#include <cstdint>

#include "../../softnic/queue_pair.hpp"

namespace verbatim::uverbs {

// 0, or what is wrong with what libmlx5 says in so many bytes. Other flags would change the queue's
// format.
int check_layout(const mlx5_ib_create_qp& provider, std::size_t bytes);
// 0, or what is wrong with the sizes that libmlx5 tells.
int check_sizes(const mlx5_ib_create_qp& provider);

// The receive queue lies at the start of the buffer, the send queue behind it.
mlx5::QueuePairView view_of_queues(const mlx5_ib_create_qp& provider, bool own_receives);
// What an XRC target has: nothing is ever announced there, whatever the program posts.
mlx5::QueuePairView view_of_target();
// Lets completion entries bring data, as mlx5's kernel driver sets it up. `flags`: libmlx5's.
void allow_data_in_entries(softnic::QueuePairParts& parts, std::uint32_t flags, bool all_signaled);

}  // namespace verbatim::uverbs

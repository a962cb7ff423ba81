// The wait for a completion follows the rule that loses none. Poll; arm; poll once more; sleep
// until the channel can be read; count the event; begin again. The second poll is needed because
// completions before the arming raise its event only where no poll has taken them.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>

namespace verbatim::mlx5 {

// Polls, and sleeps while there is nothing, for at most `timeout`. Returns the number of
// completions; 0: the time is over, or the queue cannot be armed. `channel` is the queue's and no
// other queue's. Threads: the polling one. Makes system calls only when it sleeps.
std::size_t wait_and_poll(CompletionQueue& queue, CompletionChannelHandle& channel,
                          std::span<Completion> completions, std::chrono::milliseconds timeout,
                          Notify notify = Notify::any);

}  // namespace verbatim::mlx5

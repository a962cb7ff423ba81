// The connection manager of this process: it executes commands on its state, and lets the watcher's
// thread do what peers and clocks cause. One lock for all of it; nothing under it waits for a peer.
// Events, states and errors are those of linux' rdma_ucm over a RoCE device. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include <verbatim/uverbs/device_tree.hpp>

#include "../channel.hpp"
#include "../command.hpp"
#include "../manager_state.hpp"
#include "../watcher.hpp"

namespace verbatim::rdmacm {

class Manager final : WatcherService {
  public:
    // This process' own: a forked child has another one. Never destroyed, because its thread runs
    // until the very end.
    static Manager& instance();

    // Channels are this process' own, not inherited through fork().
    // Executes one command that was written to the channel; 0 or an errno. A thread that waits for
    // an event may be cancelled there, which unwinds the caller.
    int execute(const std::shared_ptr<Channel>& channel, std::span<const std::byte> bytes);
    // Its owner has closed the channel: ends its identifiers.
    void close(Channel& channel) noexcept;

    // Environment: how long a peer may take to answer, in milliseconds.
    static constexpr const char* kTimeoutVariable = uverbs::DeviceTree::kTimeoutVariable;

  private:
    Manager();
    ~Manager() = default;
    int dispatch(const std::shared_ptr<Channel>& channel, const Command& command);
    int migrate(const std::shared_ptr<Channel>& channel, const Command& command);
    int get_event(Channel& channel, const Command& command);

    int meet_deadlines() override;
    bool serve(std::uint64_t key) override;

    const std::uint64_t generation_;
    std::mutex mutex_;  // guards the state, and the channels
    ManagerState state_;
};

}  // namespace verbatim::rdmacm

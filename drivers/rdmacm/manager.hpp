// The connection manager of this process: its identifiers, the commands on them, and what peers
// cause. One lock for all of it; nothing under it waits for a peer. Events, states and errors are
// those of linux' rdma_ucm over a RoCE device. Threads: any.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include <verbatim/uverbs/device_tree.hpp>

#include "channel.hpp"
#include "command.hpp"
#include "identifier.hpp"
#include "watcher.hpp"

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
    using Handler = int (Manager::*)(const std::shared_ptr<Channel>&, const Command&);
    struct Newcomer {  // a link that has not said yet what it wants
        softnic::Descriptor link;
        std::uint32_t listener;
        Clock::time_point deadline;
    };

    Manager();
    ~Manager() = default;
    static Handler handler_of(std::uint32_t number) noexcept;
    int dispatch(const std::shared_ptr<Channel>& channel, const Command& command);

    // Commands. Under mutex_, but for get_event.
    int create(const std::shared_ptr<Channel>& channel, const Command& command);
    int destroy(const std::shared_ptr<Channel>& channel, const Command& command);
    int migrate(const std::shared_ptr<Channel>& channel, const Command& command);
    int get_event(Channel& channel, const Command& command);
    int set_option(const std::shared_ptr<Channel>& channel, const Command& command);
    int bind_ip(const std::shared_ptr<Channel>& channel, const Command& command);
    int bind(const std::shared_ptr<Channel>& channel, const Command& command);
    int resolve_ip(const std::shared_ptr<Channel>& channel, const Command& command);
    int resolve_address(const std::shared_ptr<Channel>& channel, const Command& command);
    int resolve_route(const std::shared_ptr<Channel>& channel, const Command& command);
    int query_route(const std::shared_ptr<Channel>& channel, const Command& command);
    int query(const std::shared_ptr<Channel>& channel, const Command& command);
    int init_queue_pair(const std::shared_ptr<Channel>& channel, const Command& command);
    int listen(const std::shared_ptr<Channel>& channel, const Command& command);
    int connect(const std::shared_ptr<Channel>& channel, const Command& command);
    int accept(const std::shared_ptr<Channel>& channel, const Command& command);
    int reject(const std::shared_ptr<Channel>& channel, const Command& command);
    int disconnect(const std::shared_ptr<Channel>& channel, const Command& command);
    int notify(const std::shared_ptr<Channel>& channel, const Command& command);

    // Identifiers. Null: the channel has none of that number.
    Identifier* find(const std::shared_ptr<Channel>& channel, std::uint32_t handle) noexcept;
    Identifier& add(const std::shared_ptr<Channel>& channel, PortSpace space,
                    std::uint8_t queue_pair_type);
    void end(std::uint32_t handle) noexcept;
    // Tells the program, if it has named the identifier.
    void raise(Identifier& identifier, rdma_ucm_event_resp facts);
    int bind_to(Identifier& identifier, Endpoint endpoint);
    int resolve(Identifier& identifier, const Endpoint& source, const Endpoint& destination);

    // What peers and clocks cause (peer_events.cpp).
    int meet_deadlines() override;
    bool serve(std::uint64_t key) override;
    bool welcome(Identifier& listener);
    void hear_newcomer(std::uint64_t key);
    void take_request(Identifier& listener, softnic::Descriptor& link, const PeerMessage& request);
    void send_request(Identifier& identifier);
    void hear(Identifier& identifier);
    void obey(Identifier& identifier, const PeerMessage& message);
    void take_reply(Identifier& identifier, const PeerMessage& reply);
    void take_refusal(Identifier& identifier, const PeerMessage& refusal);
    void establish(Identifier& identifier);
    void leave(Identifier& identifier);
    void lose(Identifier& identifier);
    void part(Identifier& identifier, int status = 0);
    void run_out(Identifier& identifier);

    const std::uint64_t generation_;
    const std::chrono::milliseconds answer_time_;
    std::mutex mutex_;  // guards what follows, and the channels
    std::map<std::uint32_t, Identifier> identifiers_;
    std::uint32_t last_handle_ = 0;
    std::map<std::uint64_t, Newcomer> newcomers_;
    std::uint64_t last_newcomer_;
    Watcher watcher_;
};

}  // namespace verbatim::rdmacm

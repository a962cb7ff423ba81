// Execution of commands, and what the watcher's thread calls.
#include "manager.hpp"

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <new>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../../softnic/host/cancellation.hpp"
#include "../commands/address_commands.hpp"
#include "../commands/connection_commands.hpp"
#include "../commands/lifecycle_commands.hpp"
#include "../commands/query_commands.hpp"
#include "open_channels.hpp"

namespace verbatim::rdmacm {
namespace {

// A real one tries 16 times in about 70 s.
constexpr std::chrono::milliseconds kAnswerTime{60000};

std::chrono::milliseconds answer_time() {
    const char* const text = std::getenv(Manager::kTimeoutVariable);
    const int given = text == nullptr ? 0 : std::atoi(text);
    return given > 0 ? std::chrono::milliseconds(given) : kAnswerTime;
}

std::atomic<Manager*> g_manager{nullptr};

using Handler = int (*)(ManagerState&, const std::shared_ptr<Channel>&, const Command&);

// Null: there is no such command here.
Handler handler_of(std::uint32_t number) noexcept {
    static constexpr auto kHandlers = [] {
        std::array<Handler, RDMA_USER_CM_CMD_JOIN_MCAST + 1> table{};
        table[RDMA_USER_CM_CMD_CREATE_ID] = create_identifier;
        table[RDMA_USER_CM_CMD_DESTROY_ID] = destroy_identifier;
        table[RDMA_USER_CM_CMD_BIND_IP] = bind_ip;
        table[RDMA_USER_CM_CMD_RESOLVE_IP] = resolve_ip;
        table[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = resolve_route;
        table[RDMA_USER_CM_CMD_QUERY_ROUTE] = query_route;
        table[RDMA_USER_CM_CMD_CONNECT] = request_connection;
        table[RDMA_USER_CM_CMD_LISTEN] = start_listening;
        table[RDMA_USER_CM_CMD_ACCEPT] = accept_connection;
        table[RDMA_USER_CM_CMD_REJECT] = reject_connection;
        table[RDMA_USER_CM_CMD_DISCONNECT] = end_connection;
        table[RDMA_USER_CM_CMD_INIT_QP_ATTR] = init_queue_pair;
        table[RDMA_USER_CM_CMD_SET_OPTION] = set_option;
        table[RDMA_USER_CM_CMD_NOTIFY] = note_establishment;
        table[RDMA_USER_CM_CMD_QUERY] = query_addresses;
        table[RDMA_USER_CM_CMD_BIND] = bind_address;
        table[RDMA_USER_CM_CMD_RESOLVE_ADDR] = resolve_address;
        return table;
    }();
    return number < kHandlers.size() ? kHandlers[number] : nullptr;
}

}  // namespace

Manager::Manager() : generation_(softnic::fork_generation()), state_(*this, answer_time()) {}

Manager& Manager::instance() {
    Manager* current = g_manager.load();
    if (current != nullptr && current->generation_ == softnic::fork_generation()) return *current;
    // What a forked child inherited belongs to a thread that it has not: left as it is.
    std::unique_ptr<Manager, void (*)(Manager*)> fresh(new Manager,
                                                       [](Manager* unused) { delete unused; });
    if (g_manager.compare_exchange_strong(current, fresh.get())) return *fresh.release();
    return *g_manager.load();
}

int Manager::execute(const std::shared_ptr<Channel>& channel,
                     std::span<const std::byte> bytes) try {
    const auto command = Command::parse(bytes);
    if (!command || command->number() > RDMA_USER_CM_CMD_JOIN_MCAST) return EINVAL;
    if (command->number() == RDMA_USER_CM_CMD_GET_EVENT) return get_event(*channel, *command);
    const softnic::WithoutCancellation none;
    return dispatch(channel, *command);
} catch (const Error& error) {
    log::error("{}", error.what());
    return ENOMEM;
} catch (const std::exception& error) {
    log::error("connection manager: {}", error.what());
    return ENOMEM;
}

int Manager::dispatch(const std::shared_ptr<Channel>& channel, const Command& command) {
    // As linux answers it, which has none either.
    if (command.number() == RDMA_USER_CM_CMD_GET_OPTION) return ENOSYS;
    if (command.number() == RDMA_USER_CM_CMD_MIGRATE_ID) return migrate(channel, command);
    const Handler handler = handler_of(command.number());
    if (handler == nullptr) return EOPNOTSUPP;  // multicast
    const std::lock_guard lock(mutex_);
    return channel->ended() ? EBADF : handler(state_, channel, command);
}

// To `channel`. The old one is looked up without the lock, because it may turn out to be closed,
// and closing takes the lock.
int Manager::migrate(const std::shared_ptr<Channel>& channel, const Command& command) {
    const auto old = find_channel(static_cast<int>(command.body<rdma_ucm_migrate_id>().fd));
    const std::lock_guard lock(mutex_);
    if (channel->ended()) return EBADF;
    return old == nullptr ? EINVAL : migrate_identifier(state_, old, channel, command);
}

// Waits without the lock.
int Manager::get_event(Channel& channel, const Command& command) {
    if (command.reply_bytes() < kOldestEvent) return ENOSPC;
    for (;;) {
        {
            const softnic::WithoutCancellation none;
            const std::lock_guard lock(mutex_);
            if (channel.ended()) return EBADF;
            if (!channel.empty()) return take_event(state_, channel, command);
        }
        if (const int error = channel.wait(); error != 0) return error;
    }
}

void Manager::close(Channel& channel) noexcept {
    const std::lock_guard lock(mutex_);
    state_.identifiers.end_all_of(channel);
    channel.end();
}

int Manager::meet_deadlines() {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const auto next = std::min(state_.peers.meet_deadlines(state_.identifiers, now),
                               state_.newcomers.drop_silent(now));
    return milliseconds_until(next);
}

bool Manager::serve(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    if (state_.newcomers.contains(key)) return state_.newcomers.hear(key), true;
    if (key >> 32 != 0) return true;
    Identifier* const identifier = state_.identifiers.find(static_cast<std::uint32_t>(key));
    if (identifier == nullptr) return true;
    if (identifier->state == State::listening) return state_.newcomers.welcome(*identifier);
    state_.peers.hear(*identifier);
    return true;
}

}  // namespace verbatim::rdmacm

// Which command goes where, and the table of identifiers.
#include "manager.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../softnic/host/cancellation.hpp"

namespace verbatim::rdmacm {
namespace {

// A real one tries 16 times in about 70 s.
constexpr std::chrono::milliseconds kAnswerTime{60000};

std::chrono::milliseconds answer_time() {
    const char* const text = std::getenv(Manager::kTimeoutVariable);
    const int given = text == nullptr ? 0 : std::atoi(text);
    return given > 0 ? std::chrono::milliseconds(given) : kAnswerTime;
}

// Keys of the watcher: identifiers' handles are below, newcomers above.
constexpr std::uint64_t kFirstNewcomer = std::uint64_t{1} << 32;

std::atomic<Manager*> g_manager{nullptr};

}  // namespace

Manager::Manager()
    : generation_(softnic::fork_generation()),
      answer_time_(answer_time()),
      last_newcomer_(kFirstNewcomer),
      watcher_(*this) {}

Manager& Manager::instance() {
    Manager* current = g_manager.load();
    if (current != nullptr && current->generation_ == softnic::fork_generation()) return *current;
    // What a forked child inherited belongs to a thread that it has not: left as it is.
    std::unique_ptr<Manager, void (*)(Manager*)> fresh(new Manager,
                                                       [](Manager* unused) { delete unused; });
    if (g_manager.compare_exchange_strong(current, fresh.get())) return *fresh.release();
    return *g_manager.load();
}

Manager::Handler Manager::handler_of(std::uint32_t number) noexcept {
    static constexpr auto kHandlers = [] {
        std::array<Handler, RDMA_USER_CM_CMD_JOIN_MCAST + 1> table{};
        table[RDMA_USER_CM_CMD_CREATE_ID] = &Manager::create;
        table[RDMA_USER_CM_CMD_DESTROY_ID] = &Manager::destroy;
        table[RDMA_USER_CM_CMD_BIND_IP] = &Manager::bind_ip;
        table[RDMA_USER_CM_CMD_RESOLVE_IP] = &Manager::resolve_ip;
        table[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = &Manager::resolve_route;
        table[RDMA_USER_CM_CMD_QUERY_ROUTE] = &Manager::query_route;
        table[RDMA_USER_CM_CMD_CONNECT] = &Manager::connect;
        table[RDMA_USER_CM_CMD_LISTEN] = &Manager::listen;
        table[RDMA_USER_CM_CMD_ACCEPT] = &Manager::accept;
        table[RDMA_USER_CM_CMD_REJECT] = &Manager::reject;
        table[RDMA_USER_CM_CMD_DISCONNECT] = &Manager::disconnect;
        table[RDMA_USER_CM_CMD_INIT_QP_ATTR] = &Manager::init_queue_pair;
        table[RDMA_USER_CM_CMD_SET_OPTION] = &Manager::set_option;
        table[RDMA_USER_CM_CMD_NOTIFY] = &Manager::notify;
        table[RDMA_USER_CM_CMD_MIGRATE_ID] = &Manager::migrate;
        table[RDMA_USER_CM_CMD_QUERY] = &Manager::query;
        table[RDMA_USER_CM_CMD_BIND] = &Manager::bind;
        table[RDMA_USER_CM_CMD_RESOLVE_ADDR] = &Manager::resolve_address;
        return table;
    }();
    return number < kHandlers.size() ? kHandlers[number] : nullptr;
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
    const Handler handler = handler_of(command.number());
    if (handler == nullptr) return EOPNOTSUPP;  // multicast
    const std::lock_guard lock(mutex_);
    return channel->ended() ? EBADF : (this->*handler)(channel, command);
}

void Manager::close(Channel& channel) noexcept {
    const std::lock_guard lock(mutex_);
    const auto belongs = [&](const auto& entry) { return entry.second.channel.get() == &channel; };
    for (;;) {
        const auto one = std::find_if(identifiers_.begin(), identifiers_.end(), belongs);
        if (one == identifiers_.end()) break;
        end(one->first);
    }
    channel.end();
}

Identifier* Manager::find(const std::shared_ptr<Channel>& channel, std::uint32_t handle) noexcept {
    const auto found = identifiers_.find(handle);
    return found != identifiers_.end() && found->second.channel == channel ? &found->second
                                                                           : nullptr;
}

Identifier& Manager::add(const std::shared_ptr<Channel>& channel, PortSpace space,
                         std::uint8_t queue_pair_type) {
    // As long as it can, librdmacm finds identifiers by numbers of 16 bits.
    constexpr std::uint32_t kManyHandles = 0xfff0;
    std::uint32_t handle = last_handle_;
    do handle = handle < kManyHandles || identifiers_.size() >= kManyHandles ? handle + 1 : 1;
    while (handle == 0 || identifiers_.contains(handle));
    Identifier& identifier = identifiers_[handle];
    last_handle_ = identifier.handle = handle;
    identifier.channel = channel;
    identifier.space = space;
    identifier.queue_pair_type = queue_pair_type;
    return identifier;
}

void Manager::end(std::uint32_t handle) noexcept {
    const auto found = identifiers_.find(handle);
    if (found == identifiers_.end()) return;
    Identifier& identifier = found->second;
    watcher_.remove(identifier.claim);
    watcher_.remove(identifier.link);
    const auto withdrawn = identifier.channel->take_events_of(handle);
    identifiers_.erase(found);
    // Requests that the program has not seen are refused by this.
    for (const Event& event : withdrawn)
        if (event.request != 0) end(event.request);
}

void Manager::raise(Identifier& identifier, rdma_ucm_event_resp facts) {
    // Before it has accepted, the program has no name for it; then accepting will fail.
    if (identifier.user_id == 0) return;
    facts.uid = identifier.user_id;
    facts.id = identifier.handle;
    identifier.channel->push({identifier.handle, facts});
}

}  // namespace verbatim::rdmacm

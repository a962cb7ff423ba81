// Commands about identifiers themselves: making them, their events, channels and options.
#include "lifecycle_commands.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "../command.hpp"
#include "../manager_state.hpp"

namespace verbatim::rdmacm {

namespace {

// Of an identifier's queue pair. Two port spaces stand for one type each; in the third one the
// program says it. Nothing: there is none such here.
std::optional<std::uint8_t> queue_pair_type(const rdma_ucm_create_id& wanted) {
    switch (static_cast<PortSpace>(wanted.ps)) {
        case PortSpace::tcp:
            return IBV_QPT_RC;
        case PortSpace::udp:
            return IBV_QPT_UD;
        case PortSpace::ib:
            break;
        default:
            return std::nullopt;
    }
    for (const ibv_qp_type known :
         {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV})
        if (wanted.qp_type == known) return wanted.qp_type;
    return std::nullopt;
}

}  // namespace

// librdmacm also makes an identifier in the third port space to see whether it can be bound to an
// AF_IB address. It cannot: so librdmacm goes by IP addresses, which is what there is here.
int create_identifier(ManagerState& state, const std::shared_ptr<Channel>& channel,
                      const Command& command) {
    const auto wanted = command.body<rdma_ucm_create_id>();
    const auto type = queue_pair_type(wanted);
    if (!type) return EPROTONOSUPPORT;
    Identifier& identifier =
        state.identifiers.add(channel, static_cast<PortSpace>(wanted.ps), *type);
    identifier.user_id = wanted.uid;
    const int error = command.reply(wanted.response, rdma_ucm_create_id_resp{identifier.handle});
    if (error != 0) state.identifiers.end(identifier.handle);
    return error;
}

int destroy_identifier(ManagerState& state, const std::shared_ptr<Channel>& channel,
                       const Command& command) {
    const auto wanted = command.body<rdma_ucm_destroy_id>();
    const Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    const rdma_ucm_destroy_id_resp reply{identifier->events_reported};
    if (const int error = command.reply(wanted.response, reply); error != 0) return error;
    state.identifiers.end(wanted.id);
    return 0;
}

int migrate_identifier(ManagerState& state, const std::shared_ptr<Channel>& old,
                       const std::shared_ptr<Channel>& channel, const Command& command) {
    const auto wanted = command.body<rdma_ucm_migrate_id>();
    Identifier* const identifier = state.identifiers.find(old, wanted.id);
    if (identifier == nullptr) return ENOENT;
    const rdma_ucm_migrate_resp reply{identifier->events_reported};
    if (const int error = command.reply(wanted.response, reply); error != 0) return error;
    identifier->channel = channel;
    for (const Event& event : old->take_events_of(wanted.id)) {
        if (event.request != 0) state.identifiers.at(event.request).channel = channel;
        channel->push(event);
    }
    return 0;
}

int take_event(ManagerState& state, Channel& channel, const Command& command) {
    const auto wanted = command.body<rdma_ucm_get_event>();
    const Event event = channel.pop();
    Identifier& owner = state.identifiers.at(event.owner);
    ++owner.events_reported;
    if (event.request != 0) ++owner.room;
    return command.reply(wanted.response, event.facts, kOldestEvent);
}

namespace {

template <class T>
int read_option(const rdma_ucm_set_option& wanted, T& value) {
    if (wanted.optlen != sizeof value) return EINVAL;
    if (wanted.optval == 0) return EFAULT;
    std::memcpy(&value, reinterpret_cast<const void*>(wanted.optval), sizeof value);
    return 0;
}

int set_traffic_class(Identifier& identifier, const rdma_ucm_set_option& wanted) {
    return read_option(wanted, identifier.traffic_class);
}

int set_shares_port(Identifier& identifier, const rdma_ucm_set_option& wanted) {
    int value = 0;
    if (const int error = read_option(wanted, value); error != 0) return error;
    // Later it would come too late, as its port is claimed.
    if (identifier.claim && identifier.shares_port != (value != 0)) return EINVAL;
    identifier.shares_port = value != 0;
    return 0;
}

int set_only_family(Identifier& identifier, const rdma_ucm_set_option& wanted) {
    int value = 0;
    if (const int error = read_option(wanted, value); error != 0) return error;
    if (identifier.state != State::idle) return EINVAL;
    identifier.only_family = value != 0;
    return 0;
}

int set_acknowledge_timeout(Identifier& identifier, const rdma_ucm_set_option& wanted) {
    constexpr std::uint8_t kLargest = 31;
    std::uint8_t value = 0;
    if (const int error = read_option(wanted, value); error != 0) return error;
    if (identifier.datagrams() || value > kLargest) return EINVAL;
    identifier.acknowledge_timeout = value;
    return 0;
}

}  // namespace

int set_option(ManagerState& state, const std::shared_ptr<Channel>& channel,
               const Command& command) {
    const auto wanted = command.body<rdma_ucm_set_option>();
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    if (identifier == nullptr) return ENOENT;
    // The other level hands over a path of a subnet manager, which Ethernet has not.
    if (wanted.level != RDMA_OPTION_ID) return EOPNOTSUPP;
    switch (wanted.optname) {
        case RDMA_OPTION_ID_TOS:
            return set_traffic_class(*identifier, wanted);
        case RDMA_OPTION_ID_REUSEADDR:
            return set_shares_port(*identifier, wanted);
        case RDMA_OPTION_ID_AFONLY:
            return set_only_family(*identifier, wanted);
        case RDMA_OPTION_ID_ACK_TIMEOUT:
            return set_acknowledge_timeout(*identifier, wanted);
        default:
            return ENOSYS;
    }
}

}  // namespace verbatim::rdmacm

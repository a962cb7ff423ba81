// Commands about addresses. Both forms: with IP addresses, and with any socket address.
#include "address_commands.hpp"

#include <cerrno>
#include <fstream>

#include "../command.hpp"
#include "../device_gid.hpp"
#include "../events.hpp"
#include "../manager_state.hpp"

namespace verbatim::rdmacm {
namespace {

// Whether a wildcard of this family leaves the port to the other one.
bool only_family(const Identifier& identifier, std::uint16_t family) {
    if (identifier.only_family) return *identifier.only_family;
    if (family == AF_INET) return true;
    int only = 0;
    std::ifstream("/proc/sys/net/ipv6/bindv6only") >> only;
    return only != 0;
}

}  // namespace

int bind_to(Identifier& identifier, Endpoint endpoint) {
    if (identifier.state != State::idle) return EINVAL;
    if (!endpoint.is_any() && !is_local(endpoint)) return EADDRNOTAVAIL;
    const bool only = only_family(identifier, endpoint.family);
    const ClaimTerms terms{identifier.space, only, identifier.shares_port};
    if (const int error = claim_port(endpoint, terms, identifier.claim); error != 0) return error;
    identifier.only_family = only;
    identifier.source = endpoint;
    if (!endpoint.is_any()) identifier.device = device_of(endpoint);
    identifier.state = State::bound;
    return 0;
}

int bind_ip(ManagerState& state, const std::shared_ptr<Channel>& channel, const Command& command) {
    const auto wanted = command.body<rdma_ucm_bind_ip>();
    const auto endpoint = read_endpoint(&wanted.addr);
    if (!endpoint || !endpoint->is_set()) return EINVAL;
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    return identifier == nullptr ? ENOENT : bind_to(*identifier, *endpoint);
}

int bind_address(ManagerState& state, const std::shared_ptr<Channel>& channel,
                 const Command& command) {
    const auto wanted = command.body<rdma_ucm_bind>();
    const auto endpoint = read_endpoint(&wanted.addr);
    if (!endpoint) return EAFNOSUPPORT;
    if (!endpoint->is_set() || wanted.reserved != 0) return EINVAL;
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    return identifier == nullptr ? ENOENT : bind_to(*identifier, *endpoint);
}

namespace {

int resolve(Identifier& identifier, const Endpoint& source, const Endpoint& destination) {
    if (!destination.is_set()) return EINVAL;
    if (source.is_set() && source.family != destination.family) return EINVAL;
    if (identifier.state == State::idle) {
        const int error =
            bind_to(identifier, source.is_set() ? source : any_endpoint(destination.family));
        if (error != 0) return error;
    }
    if (identifier.state != State::bound || identifier.source.family != destination.family)
        return EINVAL;
    identifier.destination = destination;
    if (destination.is_any()) {
        identifier.destination = loopback_endpoint(destination.family);
        identifier.destination.port = destination.port;
    }
    if (!is_local(identifier.destination)) {
        // The software NIC has no way out of this host.
        raise_event(identifier, plain_event(EventType::address_error, -EHOSTUNREACH));
        return 0;
    }
    const std::uint16_t port = identifier.source.port;
    if (identifier.source.is_any()) identifier.source = source_towards(identifier.destination);
    identifier.source.port = port;
    identifier.device = device_of(identifier.source);
    identifier.state = State::address_known;
    // Learnt for good when the peer answers.
    identifier.theirs.gid = gid_of(device_of(identifier.destination), identifier.destination).bytes;
    raise_event(identifier, plain_event(EventType::address_resolved));
    return 0;
}

}  // namespace

int resolve_ip(ManagerState& state, const std::shared_ptr<Channel>& channel,
               const Command& command) {
    const auto wanted = command.body<rdma_ucm_resolve_ip>();
    const auto source = read_endpoint(&wanted.src_addr);
    const auto destination = read_endpoint(&wanted.dst_addr);
    if (!source || !destination) return EINVAL;
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    return identifier == nullptr ? ENOENT : resolve(*identifier, *source, *destination);
}

int resolve_address(ManagerState& state, const std::shared_ptr<Channel>& channel,
                    const Command& command) {
    const auto wanted = command.body<rdma_ucm_resolve_addr>();
    const auto source = wanted.src_size == 0 ? Endpoint{} : read_endpoint(&wanted.src_addr);
    const auto destination = read_endpoint(&wanted.dst_addr);
    if (!source || !destination) return EAFNOSUPPORT;
    if (wanted.reserved != 0 || wanted.dst_size == 0) return EINVAL;
    Identifier* const identifier = state.identifiers.find(channel, wanted.id);
    return identifier == nullptr ? ENOENT : resolve(*identifier, *source, *destination);
}

int resolve_route(ManagerState& state, const std::shared_ptr<Channel>& channel,
                  const Command& command) {
    Identifier* const identifier =
        state.identifiers.find(channel, command.body<rdma_ucm_resolve_route>().id);
    if (identifier == nullptr) return ENOENT;
    if (identifier->state != State::address_known) return EINVAL;
    identifier->state = State::route_known;
    raise_event(*identifier, plain_event(EventType::route_resolved));
    return 0;
}

}  // namespace verbatim::rdmacm

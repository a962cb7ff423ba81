// Addresses of this host, and their forms.
#include "endpoint.hpp"

#include <ifaddrs.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

namespace verbatim::rdmacm {

bool Endpoint::is_loopback() const noexcept {
    if (family == AF_INET) return address[0] == 127;
    return family == AF_INET6 && same_address(loopback_endpoint(AF_INET6));
}

std::string Endpoint::digits() const {
    std::string text;
    for (const std::uint8_t byte : std::span(address).first(family == AF_INET ? 4 : 16))
        text += fmt::format("{:02x}", byte);
    return text;
}

std::optional<Endpoint> read_endpoint(const void* socket_address) noexcept {
    sa_family_t family;
    std::memcpy(&family, socket_address, sizeof family);
    Endpoint endpoint;
    endpoint.family = family;
    if (family == AF_INET) {
        sockaddr_in from;
        std::memcpy(&from, socket_address, sizeof from);
        std::memcpy(endpoint.address.data(), &from.sin_addr, sizeof from.sin_addr);
        endpoint.port = ntohs(from.sin_port);
    } else if (family == AF_INET6) {
        sockaddr_in6 from;
        std::memcpy(&from, socket_address, sizeof from);
        std::memcpy(endpoint.address.data(), &from.sin6_addr, sizeof from.sin6_addr);
        endpoint.port = ntohs(from.sin6_port);
        endpoint.scope = from.sin6_scope_id;
    } else if (family != AF_UNSPEC) {
        return std::nullopt;
    }
    return endpoint;
}

std::size_t write_endpoint(const Endpoint& endpoint, void* room) noexcept {
    if (endpoint.family == AF_INET) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(endpoint.port);
        std::memcpy(&to.sin_addr, endpoint.address.data(), sizeof to.sin_addr);
        std::memcpy(room, &to, sizeof to);
        return sizeof to;
    }
    sockaddr_in6 to{};
    to.sin6_family = endpoint.family;
    if (endpoint.is_set()) {
        to.sin6_port = htons(endpoint.port);
        to.sin6_scope_id = endpoint.scope;
        std::memcpy(&to.sin6_addr, endpoint.address.data(), sizeof to.sin6_addr);
    }
    std::memcpy(room, &to, sizeof to);
    return endpoint.is_set() ? sizeof to : 0;
}

Endpoint any_endpoint(std::uint16_t family) noexcept {
    Endpoint endpoint;
    endpoint.family = family;
    return endpoint;
}

Endpoint loopback_endpoint(std::uint16_t family) noexcept {
    Endpoint endpoint = any_endpoint(family);
    if (family == AF_INET) endpoint.address[0] = 127, endpoint.address[3] = 1;
    if (family == AF_INET6) endpoint.address[15] = 1;
    return endpoint;
}

bool is_local(const Endpoint& endpoint) {
    if (endpoint.is_loopback()) return true;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return false;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr) continue;
        const auto local = read_endpoint(one->ifa_addr);
        if (local && local->is_set() && local->same_address(endpoint)) return true;
    }
    return false;
}

Endpoint source_towards(const Endpoint& own) noexcept {
    Endpoint source = own.is_loopback() ? loopback_endpoint(own.family) : own;
    source.port = 0;
    return source;
}

}  // namespace verbatim::rdmacm

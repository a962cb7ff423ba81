// Names, and who else holds one.
#include "port_claim.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../softnic/host/link_message.hpp"

namespace verbatim::rdmacm {
namespace {

constexpr const char* kBoth = "any";

std::string prefix_of(PortSpace space, std::uint16_t port) {
    return fmt::format("verbatim-rdmacm-{}-{:x}-{}-", geteuid(), static_cast<unsigned>(space),
                       port);
}

std::string any_of(std::uint16_t family) { return family == AF_INET ? "any4" : "any6"; }

std::string place_of(const Endpoint& endpoint, bool only_family) {
    if (!endpoint.is_any()) return endpoint.digits();
    return only_family ? any_of(endpoint.family) : kBoth;
}

bool is_wildcard(const std::string& place) { return place.starts_with(kBoth); }
bool serves(const std::string& wildcard, bool four) {
    return wildcard == kBoth || (wildcard == any_of(AF_INET)) == four;
}

// Whether two places of one port share addresses.
bool overlap(const std::string& a, const std::string& b) {
    constexpr std::size_t kDigitsOfFour = 8;
    if (is_wildcard(a) && is_wildcard(b)) return a == b || a == kBoth || b == kBoth;
    if (is_wildcard(a)) return serves(a, b.size() == kDigitsOfFour);
    return is_wildcard(b) ? serves(b, a.size() == kDigitsOfFour) : a == b;
}

// The names with this prefix that sockets hold now, without it.
std::vector<std::string> names_in_use(const std::string& prefix) {
    std::vector<std::string> names;
    for (const auto& socket : softnic::named_sockets(prefix).value_or(softnic::NamedSockets{}))
        if (!socket.connected) names.push_back(socket.name.substr(prefix.size()));
    return names;
}

// Shared claims have a suffix that makes their names differ. Not the process's number: another pid
// namespace has the same ones.
std::string suffix_of(const ClaimTerms& terms) {
    if (!terms.shared) return {};
    std::string text = "+";
    const softnic::Nonce nonce = softnic::random_nonce();
    for (const std::uint8_t byte : std::span(nonce).first(8)) text += fmt::format("{:02x}", byte);
    return text;
}

int claim_exactly(const Endpoint& endpoint, const ClaimTerms& terms, softnic::Descriptor& claim) {
    const std::string prefix = prefix_of(terms.space, endpoint.port);
    const std::string place = place_of(endpoint, terms.only_family);
    const std::string own = place + suffix_of(terms);
    softnic::Descriptor held;
    if (const int error = softnic::open_local_socket(held); error != 0) return error;
    if (const int error = softnic::bind_local_socket(held, prefix + own); error != 0) return error;
    for (const std::string& name : names_in_use(prefix)) {
        const std::size_t suffix = name.find('+');
        const bool both_shared = terms.shared && suffix != std::string::npos;
        if (name != own && !both_shared && overlap(place, name.substr(0, suffix)))
            return EADDRINUSE;
    }
    claim = std::move(held);
    return 0;
}

struct Range {
    std::uint16_t first = 32768, last = 60999;
};
Range free_range() {
    Range range;
    unsigned first, last;
    if (std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last && first > 0 &&
        first <= last && last <= 0xffff)
        range = {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
    return range;
}

int claim_any(Endpoint& endpoint, const ClaimTerms& terms, softnic::Descriptor& claim) {
    const Range range = free_range();
    const unsigned ports = range.last - range.first + 1u;
    const unsigned start = std::random_device{}() % ports;
    for (unsigned i = 0; i < ports; ++i) {
        endpoint.port = static_cast<std::uint16_t>(range.first + (start + i) % ports);
        const int error = claim_exactly(endpoint, terms, claim);
        if (error != EADDRINUSE) return error;
    }
    endpoint.port = 0;
    return EADDRNOTAVAIL;
}

}  // namespace

int claim_port(Endpoint& endpoint, const ClaimTerms& terms, softnic::Descriptor& claim) {
    return endpoint.port == 0 ? claim_any(endpoint, terms, claim)
                              : claim_exactly(endpoint, terms, claim);
}

int link_to(const Endpoint& to, PortSpace space, softnic::Descriptor& link) {
    const std::string prefix = prefix_of(space, to.port);
    for (const std::string& place : {to.digits(), any_of(to.family), std::string(kBoth)}) {
        softnic::Descriptor made;
        if (const int error = softnic::open_local_socket(made); error != 0) return error;
        const int error = softnic::connect_local_socket(made, prefix + place);
        if (error == 0) {
            if (!same_user(made.get())) return ECONNREFUSED;
            link = std::move(made);
            return 0;
        }
        if (error != ECONNREFUSED) return error;
    }
    return ECONNREFUSED;
}

bool same_user(int link) noexcept {
    const std::optional<ucred> peer = softnic::peer_of(link);
    return peer && peer->uid == geteuid();
}

}  // namespace verbatim::rdmacm

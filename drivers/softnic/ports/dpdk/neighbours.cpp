// Questions and answers.
#include "neighbours.hpp"

#include <cstring>

namespace verbatim::softnic {
namespace {

IpAddress own_address(const EthernetDevice& device, const DpdkOptions& options) {
    return options.address.empty() ? link_local(device.mac())
                                   : parse_ip(options.address, "[device.softnic] dpdk_address");
}

}  // namespace

void Neighbour::learn(const MacAddress& mac) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, mac.data(), mac.size());
    mac_.store(word | kKnown, std::memory_order_relaxed);
}

bool Neighbour::find(MacAddress& mac) const noexcept {
    const std::uint64_t word = mac_.load(std::memory_order_relaxed);
    std::memcpy(mac.data(), &word, mac.size());
    return word != 0;
}

// Questions are counted, not their time: a flow may need its peer long after it has named it.
bool Neighbour::is_due(Clock::time_point now) const noexcept {
    Clock::time_point last = asked_.load(std::memory_order_relaxed);
    const auto since = now - last;
    if (last != Clock::time_point{} && since < (may_come() ? kOften : kSeldom)) return false;
    if (!asked_.compare_exchange_strong(last, now, std::memory_order_relaxed)) return false;
    if (since > kForgotten) questions_.store(0, std::memory_order_relaxed);
    questions_.fetch_add(1, std::memory_order_relaxed);
    return true;
}

Neighbours::Neighbours(EthernetDevice& device, const DpdkOptions& options)
    : device_(device),
      own_(own_address(device, options)),
      peer_mac_(options.peer_mac.empty()
                    ? MacAddress{}
                    : parse_mac(options.peer_mac, "[device.softnic] dpdk_peer_mac")),
      fixed_(!options.peer_mac.empty()) {}

std::shared_ptr<const Neighbour> Neighbours::find(const IpAddress& address) {
    auto fresh = std::make_shared<Neighbour>(address);
    MacAddress mac = fixed_ ? peer_mac_ : device_.mac();
    if (!fixed_ && address != own_ && !mac_of(address, mac))
        return known_.emplace(address, std::move(fresh)).first->second;
    fresh->learn(mac);
    return fresh;
}

void Neighbours::ask(const Neighbour& neighbour) noexcept {
    MacAddress unused;
    if (neighbour.find(unused) || !neighbour.is_due(Neighbour::Clock::now())) return;
    send({NeighbourPacket::Kind::question, device_.mac(), {}, own_, neighbour.address()});
}

void Neighbours::send(const NeighbourPacket& packet) noexcept {
    const NeighbourFrame frame = neighbour_frame(packet);
    const OutgoingFrame outgoing{frame.view(), {}};
    static_cast<void>(device_.send({&outgoing, 1}));
}

// Nothing is learnt of those who were not asked for.
void Neighbours::take(const NeighbourPacket& packet) noexcept {
    const auto found = known_.find(packet.sender);
    if (found != known_.end() && packet.sender != own_) found->second->learn(packet.sender_mac);
    if (packet.kind == NeighbourPacket::Kind::question && packet.target == own_)
        send(
            {NeighbourPacket::Kind::answer, device_.mac(), packet.sender_mac, own_, packet.sender});
}

}  // namespace verbatim::softnic

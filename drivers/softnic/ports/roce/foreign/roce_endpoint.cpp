// Packets find their queue pairs.
#include "roce_endpoint.hpp"

#include <cstring>

#include "../back_end/packet_service.hpp"
#include "../packets/packet_checksum.hpp"
#include "roce_link.hpp"
#include "roce_socket.hpp"

namespace verbatim::softnic {

void RoceEndpoint::add(std::uint32_t queue_pair, PacketInbox& inbox) {
    const InsideGate inside(gate_);
    inboxes_[queue_pair] = &inbox;
}

// In a forked child the gate may be closed for ever, and nobody comes.
void RoceEndpoint::remove(std::uint32_t queue_pair) noexcept {
    if (generation_ != fork_generation()) return;
    const InsideGate inside(gate_);
    inboxes_.erase(queue_pair);
}

std::unique_ptr<PacketBackEnd> RoceEndpoint::sender_to(const StreamPlace& peer) {
    if (is_mapped(peer) != is_mapped(place_)) return nullptr;
    return make_sender(peer);
}

bool RoceEndpoint::deliver(std::span<const std::byte> datagram, const Header& from,
                           const PacketInbox* own) noexcept {
    if (datagram.size() < sizeof(BaseHeader) + kChecksumBytes) return false;
    BaseHeader base;
    std::memcpy(&base, datagram.data(), sizeof base);
    const auto found = inboxes_.find(base.queue_pair.native() & kSequenceMask);
    if (found == inboxes_.end()) return false;
    PacketInbox& inbox = *found->second;
    if (!put(datagram, from, inbox))
        drop();
    else if (&inbox != own)
        inbox.signal();
    return true;
}

// False: it is changed, or from another address, or the inbox is full.
bool RoceEndpoint::put(std::span<const std::byte> datagram, const Header& from,
                       PacketInbox& inbox) noexcept {
    if (!inbox.takes_from(from.source.address)) return false;
    auto identification = from.identification;
    if (!identification)
        identification = PacketChecksum(from.source, place_).identification_of(datagram);
    else if (!PacketChecksum(from.source, place_, *identification).fits(datagram))
        return false;
    return identification && inbox.put(datagram, {from.source.address, from.source.port,
                                                  *identification, from.traffic});
}

// An entry without an endpoint: it begins, or it ends and has the port still.
std::shared_ptr<RoceEndpoint> RoceEndpoints::at(const PacketService& service, EventThread& thread,
                                                const Address& address) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<RoceEndpoint> endpoint;
    changed_.wait(lock, [&] {
        const auto known = endpoints_.find(address);
        if (known != endpoints_.end()) endpoint = known->second.lock();
        return known == endpoints_.end() || endpoint != nullptr;
    });
    if (endpoint != nullptr) return endpoint;
    endpoints_[address];
    lock.unlock();
    endpoint = begin(service, thread, address);
    lock.lock();
    endpoints_[address] = endpoint;
    changed_.notify_all();
    return endpoint;
}

std::shared_ptr<RoceEndpoint> RoceEndpoints::begin(const PacketService& service,
                                                   EventThread& thread, const Address& address) {
    const auto finish = [this, address](RoceEndpoint* old) { end(address, old); };
    try {
        if (const auto& link = service.link()) return {new RoceLink(link, address), finish};
        return {new RoceSocket(thread, address), finish};
    } catch (...) {
        end(address, nullptr);
        throw;
    }
}

// In a forked child the lock may be held for ever.
void RoceEndpoints::end(const Address& address, RoceEndpoint* endpoint) noexcept {
    delete endpoint;
    if (generation_ != fork_generation()) return;
    const std::lock_guard lock(mutex_);
    endpoints_.erase(address);
    changed_.notify_all();
}

}  // namespace verbatim::softnic

// Packets of one queue pair among those of others.
#include "foreign_packets.hpp"

namespace verbatim::softnic {

ForeignPackets::ForeignPackets(std::shared_ptr<RoceEndpoint> endpoint, std::uint32_t queue_pair,
                               const StreamPlace& peer)
    : endpoint_(std::move(endpoint)),
      queue_pair_(queue_pair),
      sender_(endpoint_->sender_to(peer)),
      inbox_(peer.address) {
    endpoint_->add(queue_pair, inbox_);
}

ForeignPackets::~ForeignPackets() { endpoint_->remove(queue_pair_); }

std::size_t ForeignPackets::receive(std::span<std::byte> into, std::size_t each,
                                    std::span<std::size_t> lengths) noexcept {
    inbox_.quiet();
    if (inbox_.empty()) endpoint_->drain(&inbox_);
    std::size_t count = 0;
    marked_ = 0;
    for (; count != lengths.size() && !inbox_.empty(); ++count) {
        marked_ |= std::uint32_t{inbox_.origin().traffic.marked()} << count;
        lengths[count] = inbox_.take(into.subspan(count * each, each));
    }
    if (!inbox_.empty()) inbox_.signal();  // nobody may look again by himself
    return count;
}

}  // namespace verbatim::softnic

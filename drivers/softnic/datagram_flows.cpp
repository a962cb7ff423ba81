// The list of those who send here.
#include "datagram_flows.hpp"

#include <utility>

namespace verbatim::softnic {

DatagramSources::Source& DatagramSources::add(const Nonce& nonce, std::uint32_t number,
                                              ChannelReceiver ring) {
    auto source = std::make_unique<Source>();
    source->nonce = nonce;
    source->number = number;
    source->ring = std::move(ring);
    for (Source* old = first(); old != nullptr; old = old->next)
        if (old->number == number && old->nonce == nonce) {
            old->replaced = true;
            old->ring.set_state(ReceiverState::closed);
        }
    source->next = first();
    Source* const added = source.release();
    first_.store(added, std::memory_order_release);
    return *added;
}

void DatagramSources::clear() noexcept {
    Source* source = first_.exchange(nullptr);
    while (source != nullptr) {
        source->ring.set_state(ReceiverState::closed);
        delete std::exchange(source, source->next);
    }
}

}  // namespace verbatim::softnic

// Registration of a queue pair's access words.
#include "queue_pair_access.hpp"

#include "../keys/revocation.hpp"

namespace verbatim::softnic {

QueuePairAccess::QueuePairAccess(AccessRegistry& registry, std::uint32_t number)
    : registry_(registry),
      number_(number),
      send_(std::make_shared<AccessWord>(number)),
      receive_(std::make_shared<AccessWord>(number)) {
    registry_.add(send_);
    registry_.add(receive_);
}

void QueuePairAccess::remove() noexcept {
    receive_no_more();
    registry_.remove(*send_);
    registry_.remove(*receive_);
    if (ring_ != nullptr) withdraw(ring_);
}

std::shared_ptr<AccessWord> QueuePairAccess::watch(const ChannelReceiver& ring) {
    auto fresh = std::make_shared<AccessWord>(ring.access_word(), ring.slot().slab(), number_);
    registry_.add(fresh);
    return fresh;
}

void QueuePairAccess::withdraw(const std::shared_ptr<AccessWord>& ring) noexcept {
    Revocation(registry_, ring).wait();
    registry_.remove(*ring);
}

void QueuePairAccess::receive_for(AccessRegistry& other, const void* reason) {
    if (&other == &registry_ || elsewhere_.contains(reason)) return;
    auto word = std::make_shared<AccessWord>(receive_->own(), receive_, number_);
    elsewhere_.try_emplace(reason, Elsewhere{&other, word});
    other.add(std::move(word));
}

void QueuePairAccess::receive_no_more_for(const void* reason) noexcept {
    const auto found = elsewhere_.find(reason);
    if (found == elsewhere_.end()) return;
    found->second.registry->remove(*found->second.word);
    elsewhere_.erase(found);
}

void QueuePairAccess::receive_no_more() noexcept {
    while (!elsewhere_.empty()) receive_no_more_for(elsewhere_.begin()->first);
}

}  // namespace verbatim::softnic

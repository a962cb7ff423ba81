// Membership of a domain, and what the peer is told of its queues.
#include "xrc_target.hpp"

#include "queue_pair.hpp"

namespace verbatim::softnic {

std::unique_lock<std::mutex> XrcTarget::hold() const {
    return domain_ != nullptr ? domain_->lock() : std::unique_lock<std::mutex>();
}

void XrcTarget::join() {
    if (domain_ != nullptr) domain_->join(queue_pair_);
}

void XrcTarget::leave() noexcept {
    if (domain_ != nullptr) domain_->leave(queue_pair_);
}

void XrcTarget::write_no_more() noexcept {
    if (domain_ != nullptr) domain_->write_no_more(queue_pair_);
}

void XrcTarget::name_queues() noexcept {
    if (domain_ != nullptr) domain_->name_queues(queue_pair_);
}

// Keys of other devices' memory are not known to the peer: it is told of a domain that no key has.
void XrcTarget::name_queue(const XrcQueue& queue) noexcept {
    constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};
    QueuePairShared& shared = queue_pair_.turns().engines().shared();
    const auto held = queue_pair_.setup().lock();
    if (!shared.connection.incoming) return;
    shared.connection.incoming.name_queue(
        queue.list->number(), queue.device == &device_ ? queue.list->domain() : kNoDomain);
    shared.access->receive_for(queue.device->keys().accesses(), &queue);
}

void XrcTarget::forget_queue(const XrcQueue& queue) noexcept {
    QueuePairShared& shared = queue_pair_.turns().engines().shared();
    {
        const auto held = queue_pair_.setup().lock();
        if (shared.connection.incoming)
            shared.connection.incoming.forget_queue(queue.list->number());
    }
    QueuePairEngines& engines = queue_pair_.turns().engines();
    engines.receive_gate().enter_waiting();
    engines.responder().forget_queue(queue);
    engines.receive_gate().leave_for_good();
    shared.access->receive_no_more_for(&queue);
}

}  // namespace verbatim::softnic

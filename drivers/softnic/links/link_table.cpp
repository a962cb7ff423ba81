// Sharing of links.
#include "link_table.hpp"

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

// What queue pairs hold: when the last of them lets go, the control thread stops watching and the
// link closes.
std::shared_ptr<Link> share(std::shared_ptr<Link> link, ControlThread& control,
                            std::shared_ptr<void> device) {
    Link* const plain = link.get();
    return {plain,
            [&control, device = std::move(device), link = std::move(link)](Link* /*same*/) mutable {
                control.forget(*link);
                link.reset();
                // The table keeps this function object until its entry is replaced: it must not
                // keep the device in turn.
                device.reset();
            }};
}

}  // namespace

// Under mutex_.
std::shared_ptr<Link> LinkTable::find(const Nonce& peer) {
    const auto found = links_.find(peer);
    if (found == links_.end()) return nullptr;
    auto link = found->second.lock();
    return link == nullptr || link->lost() ? nullptr : link;
}

std::shared_ptr<Link> LinkTable::get(const QueuePairAddress& peer, const LinkOptions& options,
                                     Instant deadline, ControlThread& control,
                                     std::shared_ptr<void> device) {
    {
        const std::lock_guard lock(mutex_);
        if (auto link = find(peer.nonce)) return link;
    }
    // Without the lock: a silent peer must not hold up connections to others.
    auto fresh = Link::open(peer, options, deadline);
    const std::lock_guard lock(mutex_);
    if (auto link = find(peer.nonce)) return link;  // another thread was faster
    control.watch(fresh);
    auto shared = share(std::move(fresh), control, std::move(device));
    std::erase_if(links_, [](const auto& entry) { return entry.second.expired(); });
    links_[peer.nonce] = shared;
    log::debug("{}: link to process {} is up", device_name_, shared->process());
    return shared;
}

}  // namespace verbatim::softnic

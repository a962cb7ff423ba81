// Handles of identifiers.
#include "identifier_table.hpp"

#include <algorithm>

namespace verbatim::rdmacm {

Identifier* IdentifierTable::find(const std::shared_ptr<Channel>& channel,
                                  std::uint32_t handle) noexcept {
    const auto found = identifiers_.find(handle);
    return found != identifiers_.end() && found->second.channel == channel ? &found->second
                                                                           : nullptr;
}

Identifier* IdentifierTable::find(std::uint32_t handle) noexcept {
    const auto found = identifiers_.find(handle);
    return found == identifiers_.end() ? nullptr : &found->second;
}

Identifier& IdentifierTable::add(const std::shared_ptr<Channel>& channel, PortSpace space,
                                 std::uint8_t queue_pair_type) {
    // As long as it can, librdmacm finds identifiers by numbers of 16 bits.
    constexpr std::uint32_t kManyHandles = 0xfff0;
    std::uint32_t handle = last_handle_;
    do handle = handle < kManyHandles || identifiers_.size() >= kManyHandles ? handle + 1 : 1;
    while (handle == 0 || identifiers_.contains(handle));
    Identifier& identifier = identifiers_[handle];
    last_handle_ = identifier.handle = handle;
    identifier.channel = channel;
    identifier.space = space;
    identifier.queue_pair_type = queue_pair_type;
    return identifier;
}

void IdentifierTable::end(std::uint32_t handle) noexcept {
    const auto found = identifiers_.find(handle);
    if (found == identifiers_.end()) return;
    Identifier& identifier = found->second;
    watcher_.remove(identifier.claim);
    watcher_.remove(identifier.link);
    const auto withdrawn = identifier.channel->take_events_of(handle);
    identifiers_.erase(found);
    // Requests that the program has not seen are refused by this.
    for (const Event& event : withdrawn)
        if (event.request != 0) end(event.request);
}

void IdentifierTable::end_all_of(const Channel& channel) noexcept {
    const auto belongs = [&](const auto& entry) { return entry.second.channel.get() == &channel; };
    for (;;) {
        const auto one = std::find_if(identifiers_.begin(), identifiers_.end(), belongs);
        if (one == identifiers_.end()) return;
        end(one->first);
    }
}

}  // namespace verbatim::rdmacm

#include "arrivals.hpp"

#include <algorithm>

#include "messages/breach.hpp"

namespace verbatim::objects {

Arrival& Arrivals::add(std::uint64_t id, std::uint64_t fingerprint) {
    if (id != seen_ + 1) throw Breach{"a graph out of order"};
    if (spare_.empty()) spare_.emplace_back();
    all_.splice(all_.end(), spare_, spare_.begin());
    seen_ = id;
    Arrival& arrival = all_.back();
    arrival.id = id;
    arrival.fingerprint = fingerprint;
    return arrival;
}

Arrival& Arrivals::open(std::uint64_t id) {
    const auto at = std::find_if(open_.begin(), open_.end(),
                                 [&](const Arrival* arrival) { return arrival->id == id; });
    if (at == open_.end()) throw Breach{"a part of no graph"};
    return **at;
}

void Arrivals::note_begun(Arrival& arrival) {
    if (open_.size() >= wire::kMaxOpen) throw Breach{"more graphs at once than a sender may begin"};
    open_.push_back(&arrival);
}

void Arrivals::note_whole(Arrival& arrival) noexcept {
    ++waiting_;
    if (arrival.is_eager)
        eager_bytes_ += arrival.eager.bytes();
    else if (arrival.is_whole)
        waiting_bytes_ += arrival.streamed.bases.size() * kSegmentBytes;
}

void Arrivals::set_over(Arrival& arrival) noexcept {
    std::erase(open_, &arrival);
    arrival.is_over = true;
    if (arrival.is_settled && arrival.taker == nullptr) unclaim(arrival);
}

Arrival* Arrivals::claim(std::uint16_t channel, const void* taker) noexcept {
    auto* const found = const_cast<Arrival*>(next(channel));
    if (found != nullptr) found->taker = taker;
    return found;
}

void Arrivals::unclaim(Arrival& arrival) noexcept {
    arrival.taker = nullptr;
    if (!arrival.is_settled || !arrival.is_over) return;
    const auto at = &all_.front() == &arrival
                        ? all_.begin()
                        : std::find_if(all_.begin(), all_.end(),
                                       [&](const Arrival& other) { return &other == &arrival; });
    arrival.reset();
    spare_.splice(spare_.begin(), all_, at);
}

void Arrivals::finish(Arrival& arrival) noexcept {
    --waiting_;
    if (arrival.is_eager)
        eager_bytes_ -= arrival.eager.bytes();
    else if (arrival.is_whole)
        waiting_bytes_ -= arrival.streamed.bases.size() * kSegmentBytes;
    arrival.is_settled = true;
    unclaim(arrival);
}

const Arrival* Arrivals::next(std::uint16_t channel) const noexcept {
    for (const Arrival& arrival : all_)
        if (arrival.channel == channel && arrival.taker == nullptr && !arrival.is_settled)
            return &arrival;
    return nullptr;
}

bool Arrivals::have_news() const noexcept {
    for (const Arrival& arrival : all_)
        if (arrival.taker == nullptr ? !arrival.is_settled
                                     : arrival.has_news || arrival.is_settled || arrival.error)
            return true;
    return false;
}

bool Arrivals::is_readable(std::uint16_t channel) const noexcept {
    const Arrival* const found = next(channel);
    return found != nullptr && (found->is_whole || found->error.has_value());
}

}  // namespace verbatim::objects

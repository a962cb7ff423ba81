// The hot connections of a lane.
#include "polled_set.hpp"

#include <algorithm>

namespace verbatim {

void PolledSet::add(LaneMember& member) noexcept {
    member.last_active = poll_;
    if (member.is_polled) return;
    member.is_polled = true;
    polled_.push_back(&member);
}

void PolledSet::remove(LaneMember& member) noexcept {
    if (!member.is_polled) return;
    member.is_polled = false;
    const auto at = std::find(polled_.begin(), polled_.end(), &member);
    *at = polled_.back();
    polled_.pop_back();
}

namespace {

// A look would find nothing, as nearly always.
bool is_quiet(LaneMember& member) noexcept {
    return !member.tells_again && member.arrival().is_at_rest() && member.ring().is_quiet();
}

}  // namespace

// Handlers may end members, so the set may change under the loop. A member that is moved to a place
// behind the loop waits for the next poll.
std::size_t PolledSet::look(std::uint64_t poll) noexcept {
    poll_ = poll;
    std::size_t happened = 0;
    for (std::size_t i = 0; i < polled_.size(); ++i) {
        LaneMember& member = *polled_[i];
        if (!is_quiet(member) && member.look()) {
            ++happened;
            if (i < polled_.size() && polled_[i] == &member) member.last_active = poll;
        } else if (member.arrival().is_armed() && !member.ring().owes()) {
            remove(member);
        }
    }
    if (polled_.size() > hot_) [[unlikely]]
        arm_one();
    return happened;
}

// The one that was active longest ago, unless enough are being armed.
void PolledSet::arm_one() noexcept {
    LaneMember* oldest = nullptr;
    std::size_t hot = 0;
    for (LaneMember* member : polled_) {
        if (member->arrival().state() != ArrivalReceiver::State::hot || member->has_ended())
            continue;
        ++hot;
        if (member->arrival().can_arm() && !member->is_always_hot &&
            (oldest == nullptr || member->last_active < oldest->last_active))
            oldest = member;
    }
    if (oldest != nullptr && hot > hot_) (void)oldest->arm();
}

LaneMember::Rest PolledSet::arm_all() noexcept {
    auto rest = LaneMember::Rest::quiet;
    for (std::size_t i = 0; i < polled_.size(); ++i) rest = std::max(rest, polled_[i]->arm());
    return rest;
}

}  // namespace verbatim

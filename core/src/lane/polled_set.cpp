// The hot connections of a lane, and those with notes.
#include "polled_set.hpp"

#include <algorithm>

namespace verbatim {
namespace {

// In polls: between two looks for idle members; how long a hot one keeps its place, and a noted one
// its note, without news. And the notes after which one is polled, if there is room.
constexpr std::uint64_t kCoolEvery = 64, kHotFor = 1 << 16, kNotedFor = 1 << 20;
constexpr std::uint32_t kNotesToHeat = 32;

}  // namespace

void PolledSet::push(LaneMember& member) noexcept {
    if (member.polling.is_polled) return;
    member.polling.is_polled = true;
    polled_.push_back(&member);
}

void PolledSet::add(LaneMember& member) noexcept {
    member.polling.last_active = poll_;
    push(member);
}

void PolledSet::remove_at(std::size_t at) noexcept {
    polled_[at]->telemetry.note();
    polled_[at]->polling.is_polled = false;
    polled_[at] = polled_.back();
    polled_.pop_back();
}

void PolledSet::leave(LaneMember& member) noexcept {
    noted_.remove(member);
    const auto at = std::find(polled_.begin(), polled_.end(), &member);
    if (at != polled_.end()) remove_at(static_cast<std::size_t>(at - polled_.begin()));
}

// One that gets many is polled, if there is room.
void PolledSet::take_note(LaneMember& member) noexcept {
    add(member);
    if (++member.polling.notes < kNotesToHeat || hot_now_ >= hot_ || !member.arrival().can_arm() ||
        member.has_ended())
        return;
    member.polling.notes = 0;
    if (member.arrival().silence() != Errc::ok) return;
    noted_.remove(member);
    ++hot_now_;
}

namespace {

bool is_hot(LaneMember& member) noexcept {
    return member.arrival().state() == ArrivalReceiver::State::hot && !member.has_ended();
}
// A look would find nothing, as nearly always. The next ones look at the words of a hot one alone.
bool is_quiet(LaneMember& member, bool is_hot) noexcept {
    PolledWords& words = member.polling.words;
    if (member.tells_again || !member.arrival().is_at_rest() || !member.ring().is_quiet(words))
        return false;
    words.are_valid = is_hot;
    return true;
}

}  // namespace

// Handlers may end members, so the set may change under the loop. A member that is moved to a place
// behind the loop waits for the next poll.
std::size_t PolledSet::look_at_polled() noexcept {
    std::size_t happened = 0;
    hot_now_ = 0;
    for (std::size_t i = 0; i < polled_.size(); ++i) {
        LaneMember& member = *polled_[i];
        const PolledWords& words = member.polling.words;
        if (words.are_valid && words.are_unchanged()) [[likely]] {
            ++hot_now_;
            continue;
        }
        const bool is_told = member.arrival().is_armed() || member.arrival().is_noted();
        const bool hot = is_hot(member);
        hot_now_ += hot;
        if (!is_quiet(member, hot) && member.look()) {
            ++happened;
            if (i < polled_.size() && polled_[i] == &member) member.polling.last_active = poll_;
        } else if (is_told && !member.ring().owes()) {
            remove_at(i--);
        }
    }
    return happened;
}

void PolledSet::look_at_notes() noexcept {
    noted_.look([this](LaneMember& member) { take_note(member); });
}

std::size_t PolledSet::look(std::uint64_t poll) noexcept {
    poll_ = poll;
    if (!noted_.empty()) look_at_notes();
    const std::size_t happened = look_at_polled();
    if (hot_now_ > hot_) [[unlikely]]
        arm_oldest(hot_, poll);
    if (poll % kCoolEvery == 0) cool();
    return happened;
}

namespace {

// Else arming it is refused, perhaps for long.
bool may_arm(LaneMember& member) noexcept {
    return member.arrival().can_arm() && !member.is_always_hot &&
           !member.path().room().is_paused() && !member.ring().owes();
}

// That may be armed and was active longest ago; null unless more than `most` are hot.
LaneMember* oldest_of(const std::vector<LaneMember*>& polled, std::size_t most) noexcept {
    LaneMember* oldest = nullptr;
    std::size_t hot = 0;
    for (LaneMember* member : polled) {
        if (!is_hot(*member)) continue;
        ++hot;
        if (may_arm(*member) &&
            (oldest == nullptr || member->polling.last_active < oldest->polling.last_active))
            oldest = member;
    }
    return hot > most ? oldest : nullptr;
}

}  // namespace

// One of more than `most` hot ones, if it has had nothing since the poll `since`.
void PolledSet::arm_oldest(std::size_t most, std::uint64_t since) noexcept {
    LaneMember* const oldest = oldest_of(polled_, most);
    if (oldest == nullptr || oldest->polling.last_active > since) return;
    using Wake = ArrivalReceiver::Wake;
    // One that was never used may stay idle for ever.
    MessageRing& ring = oldest->ring();
    const bool is_used = ring.receiver().position() != 0 || ring.sent() != 0;
    if (!is_used || !noted_.has_room(*oldest)) return void(oldest->arm(Wake::by_immediate));
    noted_.add(*oldest);
    (void)oldest->arm(Wake::by_note);
    oldest->polling.notes = 0;
    if (oldest->arrival().state() == ArrivalReceiver::State::hot)  // refused
        noted_.remove(*oldest);
}

// A hot one that has been idle for long, but for the last, and a noted one.
void PolledSet::cool() noexcept {
    if (poll_ > kHotFor) arm_oldest(1, poll_ - kHotFor);
    LaneMember* const member = noted_.next();
    if (member == nullptr || member->polling.last_active + kNotedFor > poll_) return;
    if (member->arrival().can_arm()) rearm(*member);
}

// By an immediate, where that is possible now.
LaneMember::Rest PolledSet::rearm(LaneMember& noted) noexcept {
    const LaneMember::Rest rest = noted.arm(ArrivalReceiver::Wake::by_immediate);
    if (noted.arrival().takes_notes()) return rest;
    noted_.remove(noted);
    push(noted);
    return rest;
}

LaneMember::Rest PolledSet::arm_all() noexcept {
    auto rest = LaneMember::Rest::quiet;
    for (std::size_t i = 0; i < polled_.size(); ++i)
        rest = std::max(rest, polled_[i]->arm(ArrivalReceiver::Wake::by_immediate));
    noted_.for_each([&](LaneMember& member) { rest = std::max(rest, rearm(member)); });
    return rest;
}

}  // namespace verbatim

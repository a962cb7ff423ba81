#include "meeting.hpp"

#include <sched.h>
#include <x86gprintrin.h>

#include <algorithm>
#include <stdexcept>

#include "../support/cores.hpp"

namespace verbatim::bench {
namespace {

constexpr double kSilenceMicroseconds = 20e6;

std::uint64_t ticks(double microseconds) {
    return static_cast<std::uint64_t>(microseconds * ticks_per_microsecond());
}

}  // namespace

Side::Side(MeetingPage& page, unsigned index, std::span<std::uint64_t> samples, double microseconds)
    : page_(page), index_(index), samples_(samples), budget_ticks_(ticks(microseconds)) {}

Side::Waiting::Waiting() : limit_(__rdtsc() + ticks(kSilenceMicroseconds)) {}

void Side::Waiting::check() const {
    if (__rdtsc() > limit_) throw std::runtime_error("the other process does not answer");
    sched_yield();
}

void Side::say(std::string_view mine) {
    ++round_;
    MeetingPage::Saying& place = page_.said[index_][round_ % 2];
    if (mine.size() > place.text.size()) throw std::runtime_error("too long an address");
    std::ranges::copy(mine, place.text.begin());
    place.bytes = mine.size();
    place.round.store(round_, std::memory_order_release);
}

bool Side::heard() const noexcept {
    return page_.said[1 - index_][round_ % 2].round.load(std::memory_order_acquire) == round_;
}

std::string Side::peer_text() const {
    const MeetingPage::Saying& place = page_.said[1 - index_][round_ % 2];
    return {place.text.data(), place.bytes};
}

}  // namespace verbatim::bench

// How peers wake a thread that sleeps for a completion. The engine of a queue pair runs in the
// thread that polls; while that thread sleeps, its peer's messages and acknowledgements would lie
// in shared memory unseen. So a thread that is about to sleep leaves a word there, for each
// direction, looks once more, and sleeps; a peer that has written something looks at the word and
// sends one line over the link, whose control thread raises the event. Both sides order their store
// before their load, so one of them sees the other. Only queue pairs of queues with a completion
// channel take part.
//
// The word: [31:2] counts the times, 0 is never; each is woken once. [1] the sleeper's requests
// wait for room in the ring; [0] it sleeps for solicited completions and errors only.
#pragma once

#include <cstdint>

namespace verbatim::softnic {

inline constexpr std::uint32_t kSleepsForSolicited = 1, kSleepsForRoom = 2;

constexpr std::uint32_t next_sleep_word(std::uint32_t word, bool solicited) noexcept {
    std::uint32_t count = (word >> 2) + 1;
    if (count >> 30 != 0) count = 1;
    return count << 2 | (solicited ? kSleepsForSolicited : 0);
}

// Whether the sleeper is to be woken for this; `woken`: the word that was last.
constexpr bool is_to_wake(std::uint32_t word, std::uint32_t woken, bool noteworthy) noexcept {
    if (word >> 2 == 0 || word >> 2 == woken >> 2) return false;
    return noteworthy || (word & kSleepsForSolicited) == 0 || (word & kSleepsForRoom) != 0;
}

}  // namespace verbatim::softnic

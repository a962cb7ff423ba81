// Execution of queue pairs.
#include "engine_rounds.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::uverbs {

void EngineRounds::look(Doorbells doorbells) noexcept {
    return_ = Return::never;
    awaits_peers_ = false;
    const std::uint64_t made = queues_.completions(false);
    read_doorbells(doorbells);
    queue_pairs_.walk([this](softnic::QueuePair& pair) {
        const softnic::QueuePairEngines& engines = pair.turns().engines();
        const std::uint16_t before = engines.requester().executed();
        pair.turns().progress();
        requests_found_ += static_cast<std::uint16_t>(engines.requester().executed() - before);
        return_ = std::max(return_, engines.must_return());
        awaits_peers_ |= engines.requester().outstanding();
    });
    made_completions_ |= queues_.completions(false) != made;
    queues_.raise();
}

bool EngineRounds::look_aside(Doorbells doorbells) noexcept {
    const std::uint32_t before = requests_found_;
    look(doorbells);
    return std::exchange(requests_found_, before) != before;
}

// Requests may have been posted past libibverbs, to queue pairs that nobody looks at. While the
// traps are set there are none, but for those before; while the program's calls announce its
// doorbells they wait until the traps are set.
void EngineRounds::read_doorbells(Doorbells doorbells) noexcept {
    const bool may_be_there = std::exchange(unread_, doorbells != Doorbells::trapped);
    if (doorbells == Doorbells::announced) return;
    if (doorbells == Doorbells::trapped && !may_be_there) return;
    queue_pairs_.walk_all([](softnic::QueuePair& pair) {
        softnic::QueuePairTurns& turns = pair.turns();
        if (!turns.attention().hot() && turns.engines().requester().unexecuted())
            turns.attention().heat();
    });
}

std::uint32_t EngineRounds::take_requests_found() noexcept {
    return std::exchange(requests_found_, 0);
}

bool EngineRounds::take_made_completions() noexcept {
    return std::exchange(made_completions_, false);
}

}  // namespace verbatim::uverbs

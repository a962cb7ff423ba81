// The protocol of docs/revocation.md as a model, every interleaving of it: a requester that copies
// twice, with a store buffer, that may be stopped or killed anywhere; and two revokers. After a
// revoker has succeeded no copy that it revoked is under way or begins.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace {

struct Variant {
    bool fence = false;      // the requester's, behind its odd store
    bool barrier = true;     // the revoker's
    bool looks_late = true;  // the requester looks at the version after the odd store, not before
    bool may_die = false;    // a dead requester is not waited for
};

constexpr int kCopies = 2, kRevokers = 2;
enum Step : std::uint8_t { store_odd, look, copy, store_even };

struct Requester {
    std::uint8_t step = store_odd, copies = 0, sequence = 0;
    bool dead = false, copying = false;
    std::uint8_t valid_for = 3;  // bits of the revokers whose change it had not seen
    // The access word on its way to memory, oldest first.
    std::array<std::uint8_t, 4> buffer{};
    std::uint8_t buffered = 0;
    auto operator<=>(const Requester&) const = default;
};
struct Revoker {
    std::uint8_t step = 0;  // change, barrier, look, wait, done
    std::uint8_t seen = 0;
    auto operator<=>(const Revoker&) const = default;
};
struct State {
    Requester requester;
    std::array<Revoker, kRevokers> revokers;
    std::uint8_t word = 0;     // in memory
    std::uint8_t revoked = 0;  // bits, one for each revoker's key; in memory
    auto operator<=>(const State&) const = default;
};

void drain_one(State& state) {
    Requester& r = state.requester;
    state.word = r.buffer[0];
    for (std::size_t i = 1; i < r.buffer.size(); ++i) r.buffer[i - 1] = r.buffer[i];
    --r.buffered;
    r.buffer[r.buffered] = 0;
}

void store(State& state, bool fence) {
    Requester& r = state.requester;
    r.buffer[r.buffered++] = ++r.sequence;
    while (fence && r.buffered != 0) drain_one(state);
}

void look_at_versions(State& state) {
    state.requester.valid_for = static_cast<std::uint8_t>(~state.revoked & 3);
}

// The next step of the requester. A copy is two steps, so that others come between.
bool step_requester(State& state, const Variant& variant) {
    Requester& r = state.requester;
    if (r.dead || r.copies == kCopies || r.buffered == r.buffer.size()) return false;
    switch (r.step) {
        case store_odd:
            store(state, variant.fence);
            r.step = look;
            return true;
        case look:
            if (variant.looks_late) look_at_versions(state);
            r.copying = r.valid_for != 0;
            r.step = copy;
            return true;
        case copy:
            r.copying = false;
            r.step = store_even;
            return true;
        default:
            store(state, false);
            if (!variant.looks_late) look_at_versions(state);
            r.step = store_odd;
            ++r.copies;
            return true;
    }
}

bool step_revoker(State& state, std::size_t which, const Variant& variant) {
    Revoker& own = state.revokers[which];
    const bool died = variant.may_die && state.requester.dead;
    switch (own.step) {
        case 0:
            state.revoked = static_cast<std::uint8_t>(state.revoked | 1u << which);
            break;
        case 1:
            while (variant.barrier && state.requester.buffered != 0) drain_one(state);
            break;
        case 2:
            own.seen = state.word;
            break;
        case 3:
            if ((own.seen & 1) != 0 && state.word == own.seen && !died) return false;
            break;
        default:
            return false;
    }
    ++own.step;
    return true;
}

// A revoker has succeeded, and the requester copies by what it revoked.
bool is_wrong(const State& state) {
    for (std::size_t i = 0; i < kRevokers; ++i)
        if (state.revokers[i].step == 4 && state.requester.copying && !state.requester.dead &&
            (state.requester.valid_for & 1u << i) != 0)
            return true;
    return false;
}

struct Explored {
    std::size_t states = 0;
    bool wrong = false;
    bool all_succeed = false;     // in some interleaving
    bool waits_for_ever = false;  // for a requester that lives and is through
};

Explored explore(const Variant& variant) {
    std::set<State> known;
    std::vector<State> open{State{}};
    Explored result;
    const auto reach = [&](const State& next) {
        if (known.insert(next).second) open.push_back(next);
    };
    while (!open.empty()) {
        const State now = open.back();
        open.pop_back();
        result.wrong |= is_wrong(now);
        bool moves = false;
        for (std::size_t i = 0; i < kRevokers; ++i) {
            State next = now;
            if (step_revoker(next, i, variant)) reach(next), moves = true;
        }
        if (State next = now; step_requester(next, variant)) reach(next), moves = true;
        if (State next = now; next.requester.buffered != 0)
            drain_one(next), reach(next), moves = true;
        if (State next = now; variant.may_die && !next.requester.dead)
            next.requester.dead = true, reach(next);
        const bool succeeded = now.revokers[0].step == 4 && now.revokers[1].step == 4;
        result.all_succeed |= succeeded;
        if (!moves && !succeeded) result.waits_for_ever = true;
    }
    result.states = known.size();
    return result;
}

TEST(RevocationModel, barriers_keep_every_interleaving_right) {
    for (const bool may_die : {false, true}) {
        const Explored found = explore({.may_die = may_die});
        EXPECT_GT(found.states, 300u);
        EXPECT_FALSE(found.wrong);
        EXPECT_TRUE(found.all_succeed);
        EXPECT_FALSE(found.waits_for_ever);
    }
}

TEST(RevocationModel, fences_do_without_barriers) {
    const Explored found = explore({.fence = true, .barrier = false});
    EXPECT_FALSE(found.wrong);
    EXPECT_TRUE(found.all_succeed);
}

// The model can tell: what the protocol must not leave out.
TEST(RevocationModel, finds_what_goes_wrong_without_either_and_with_an_early_look) {
    EXPECT_TRUE(explore({.barrier = false}).wrong);
    EXPECT_TRUE(explore({.looks_late = false}).wrong);
}

}  // namespace

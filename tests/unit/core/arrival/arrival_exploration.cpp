// States, edges between them, and faults.
#include "arrival_exploration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "arrival_trace.hpp"

namespace verbatim::arrival_model {

Exploration::Exploration(const Variant& variant, Wrong sought) : model_(variant) {
    enter(model_.beginning(), {});
    for (std::size_t at = 0; at < states_.size() && !traces_.contains(sought); ++at) expand(at);
    if (sought == Wrong::nothing && has_cycle()) traces_[Wrong::endless] = "a cycle of states";
}

std::uint32_t Exploration::enter(const State& state, Origin origin) {
    const auto [entry, is_new] =
        numbers_.try_emplace(state, static_cast<std::uint32_t>(states_.size()));
    if (is_new) {
        states_.push_back(state);
        origins_.push_back(origin);
    }
    return entry->second;
}

void Exploration::expand(std::size_t at) {
    first_edge_.push_back(edges_.size());
    bool must_go_on = false;
    for (const Action action : kActions)
        if (follow(at, action)) must_go_on |= !is_choice(action);
    if (!must_go_on) end(at);
}

bool Exploration::follow(std::size_t at, Action action) {
    std::optional<State> next = model_.after(states_[at], action);
    if (!next) return false;
    const Wrong wrong = std::exchange(next->wrong, Wrong::nothing);
    most_immediates_ = std::max(most_immediates_, Model::outstanding_immediates(*next));
    most_unretired_ = std::max<unsigned>(most_unretired_, next->receiver.unretired);
    edges_.push_back(enter(*next, {static_cast<std::uint32_t>(at), action}));
    note(wrong, edges_.back());
    return true;
}

void Exploration::end(std::size_t at) {
    noted_ends_ += model_.is_noted(states_[at].receiver);
    note(model_.at_end(states_[at]), at);
}

void Exploration::note(Wrong wrong, std::size_t at) {
    if (wrong != Wrong::nothing && !traces_.contains(wrong)) traces_[wrong] = way_to(at);
}

std::string Exploration::way_to(std::size_t at) const {
    if (at == 0) return {};
    const Origin& origin = origins_[at];
    return way_to(origin.state) + "  " +
           describe(states_[origin.state], origin.action, states_[at]) + "\n";
}

// Takes away states that nothing leads to any more, until none is left or a cycle is.
bool Exploration::has_cycle() const {
    std::vector<unsigned> ways_in(states_.size());
    for (const std::uint32_t to : edges_) ++ways_in[to];
    std::vector<std::uint32_t> free{0};
    std::size_t taken = 0;
    for (; !free.empty(); ++taken) {
        const std::size_t at = free.back();
        free.pop_back();
        const std::size_t end = at + 1 < first_edge_.size() ? first_edge_[at + 1] : edges_.size();
        for (std::size_t edge = first_edge_[at]; edge < end; ++edge)
            if (--ways_in[edges_[edge]] == 0) free.push_back(edges_[edge]);
    }
    return taken != states_.size();
}

void expect_right(const Variant& variant) {
    const Exploration all(variant);
    std::cout << "  " << variant.things << ": " << all.states() << " states\n";
    for (const auto& [wrong, trace] : all.traces())
        ADD_FAILURE() << variant.things << ": fault " << static_cast<int>(wrong) << "\n" << trace;
    EXPECT_EQ(all.most_immediates(), 1u);
    EXPECT_LE(all.most_unretired(), 3u);
    EXPECT_EQ(all.noted_ends() != 0, variant.notes.changes != 0 && !variant.notes.sleeps);
}

void expect_wrong(const Variant& variant, Wrong wrong) {
    const Exploration part(variant, wrong);
    ASSERT_TRUE(part.traces().contains(wrong));
    std::cout << part.traces().at(wrong);
}

}  // namespace verbatim::arrival_model

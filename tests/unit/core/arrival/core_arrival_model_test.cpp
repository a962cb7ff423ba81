// Every interleaving of the arrival protocol (docs/arrival.md), and of variants with one step left
// out, each of which must show a counterexample. States are explored breadth first, so that traces
// are the shortest ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arrival_model.hpp"

namespace verbatim::arrival_model {
namespace {

struct HashBytes {
    std::size_t operator()(const State& state) const {
        return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&state), sizeof state});
    }
};

std::string describe_sender(const State& from, const State& to) {
    const Fifo& requests = to.network.requests;
    if (requests.count == from.network.requests.count) return "S loads armed again: nothing new";
    const Small last = requests.items[requests.count - 1u];
    const Small generation = generation_of(last);
    const std::string immediate =
        generation != 0 ? " with immediate " + std::to_string(generation) : std::string();
    if (thing_of(last) == 0) return "S loads armed again, and posts nothing" + immediate;
    return "S posts " + std::to_string(thing_of(last)) + immediate;
}

std::string describe_receiver(const State& from, const State& to) {
    static constexpr const char* kSteps[]{"looks at memory",       "polls the queue",
                                          "arms the queue",        "polls the queue again",
                                          "looks at memory again", "wakes"};
    const std::string text = std::string("R ") + kSteps[static_cast<int>(from.receiver.step)];
    if (to.receiver.issued != from.receiver.issued)
        return text + ", writes armed = " + std::to_string(to.receiver.issued);
    if (to.receiver.taken != from.receiver.taken)
        return text + ": immediate " + std::to_string(to.receiver.taken);
    if (to.receiver.records != from.receiver.records)
        return text + ": record " + std::to_string(to.receiver.records);
    return text + (to.receiver.step == ReceiverStep::asleep ? ", sleeps" : "");
}

std::string describe(const State& from, Action action, const State& to) {
    switch (action) {
        case Action::sender:
            return describe_sender(from, to);
        case Action::drain_store:
            return "posted = " + std::to_string(to.sender.posted) + " is in memory";
        case Action::execute_request:
            return "the next request of S is executed";
        case Action::show_completion:
            return "its completion is in the queue";
        case Action::write_armed:
            return "armed = " + std::to_string(to.sender.armed) + " is in memory";
        case Action::sample_posted:
            return "the read loads posted";
        case Action::answer_read:
            return "the read completes: " + std::to_string(to.network.read_records);
        case Action::receiver:
            return describe_receiver(from, to);
        case Action::disturb:
            return "another connection wakes R";
    }
    return {};
}

class Exploration {
  public:
    // Of all states, or up to the first one with this fault.
    explicit Exploration(const Variant& variant, Wrong sought = Wrong::nothing) : model_(variant) {
        enter(State{}, {});
        for (std::size_t at = 0; at < states_.size() && !traces_.contains(sought); ++at) expand(at);
        if (sought == Wrong::nothing && has_cycle()) traces_[Wrong::endless] = "a cycle of states";
    }

    unsigned most_immediates() const { return most_immediates_; }
    // The shortest way to each fault.
    const std::map<Wrong, std::string>& traces() const { return traces_; }

  private:
    struct Origin {
        std::uint32_t state = 0;
        Action action{};
    };

    std::uint32_t enter(const State& state, Origin origin) {
        const auto [entry, is_new] =
            numbers_.try_emplace(state, static_cast<std::uint32_t>(states_.size()));
        if (is_new) {
            states_.push_back(state);
            origins_.push_back(origin);
        }
        return entry->second;
    }

    void expand(std::size_t at) {
        first_edge_.push_back(edges_.size());
        for (const Action action : kActions) {
            std::optional<State> next = model_.after(states_[at], action);
            if (!next) continue;
            const Wrong wrong = std::exchange(next->wrong, Wrong::nothing);
            most_immediates_ = std::max(most_immediates_, Model::outstanding_immediates(*next));
            edges_.push_back(enter(*next, {static_cast<std::uint32_t>(at), action}));
            note(wrong, edges_.back());
        }
        if (first_edge_.back() == edges_.size()) note(model_.at_end(states_[at]), at);
    }

    void note(Wrong wrong, std::size_t at) {
        if (wrong != Wrong::nothing && !traces_.contains(wrong)) traces_[wrong] = way_to(at);
    }

    std::string way_to(std::size_t at) const {
        if (at == 0) return {};
        const Origin& origin = origins_[at];
        return way_to(origin.state) + "  " +
               describe(states_[origin.state], origin.action, states_[at]) + "\n";
    }

    // Takes away states that nothing leads to any more, until none is left or a cycle is.
    bool has_cycle() const {
        std::vector<unsigned> ways_in(states_.size());
        for (const std::uint32_t to : edges_) ++ways_in[to];
        std::vector<std::uint32_t> free{0};
        std::size_t taken = 0;
        for (; !free.empty(); ++taken) {
            const std::size_t at = free.back();
            free.pop_back();
            const std::size_t end =
                at + 1 < first_edge_.size() ? first_edge_[at + 1] : edges_.size();
            for (std::size_t edge = first_edge_[at]; edge < end; ++edge)
                if (--ways_in[edges_[edge]] == 0) free.push_back(edges_[edge]);
        }
        return taken != states_.size();
    }

    Model model_;
    std::vector<State> states_;
    std::vector<Origin> origins_;  // of the states
    std::unordered_map<State, std::uint32_t, HashBytes> numbers_;
    std::vector<std::uint32_t> edges_;  // in the order of the states that they leave
    std::vector<std::size_t> first_edge_;
    std::map<Wrong, std::string> traces_;
    unsigned most_immediates_ = 0;
};

void expect_right(const Variant& variant) {
    const Exploration all(variant);
    for (const auto& [wrong, trace] : all.traces())
        ADD_FAILURE() << variant.things << ": fault " << static_cast<int>(wrong) << "\n" << trace;
    EXPECT_EQ(all.most_immediates(), 1u);
}

// Prints the counterexample, which is what the test is for.
void expect_wrong(const Variant& variant, Wrong wrong) {
    const Exploration part(variant, wrong);
    ASSERT_TRUE(part.traces().contains(wrong));
    std::cout << part.traces().at(wrong);
}

TEST(ArrivalModel, wakes_for_every_thing_with_one_immediate_at_a_time) {
    for (const std::string_view things : {"r", "c", "rr", "rc", "cc", "rrr", "rcr", "ccr"})
        expect_right({.things = things});
}

TEST(ArrivalModel, wakes_for_four_records) { expect_right({.things = "rrrr"}); }

TEST(ArrivalModel, wakes_although_another_connection_wakes_it) {
    expect_right({.things = "rr", .disturbed = true});
}

TEST(ArrivalModel, needs_no_completion_later_than_its_data) {
    expect_right({.late_completions = false});
}

TEST(ArrivalModel, first_load_of_armed_only_saves_a_request) {
    expect_right({.first_load = false});
}

TEST(ArrivalModel, second_look_at_memory_only_saves_a_sleep) {
    expect_right({.polls_memory_again = false});
}

TEST(ArrivalModel, loses_a_wake_up_without_the_second_load_of_armed) {
    expect_wrong({.things = "r", .second_load = false}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_without_the_fence) {
    expect_wrong({.things = "r", .fence = false}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_without_the_read_of_posted) {
    expect_wrong({.things = "r", .read = Read::none}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_if_posted_is_read_before_armed_is_written) {
    expect_wrong({.things = "r", .read = Read::before_armed}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_if_it_does_not_await_what_posted_names) {
    expect_wrong({.things = "r", .awaits_posted = false}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_without_the_poll_behind_the_arming_of_the_queue) {
    expect_wrong({.things = "r", .polls_queue_again = false, .polls_memory_again = false},
                 Wrong::lost_wake_up);
}

TEST(ArrivalModel, loses_a_wake_up_if_it_looks_again_at_memory_only) {
    expect_wrong({.polls_queue_again = false}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, runs_out_of_receives_if_it_arms_without_an_arrival) {
    expect_wrong({.rearm = Rearm::always}, Wrong::no_receive);
}

TEST(ArrivalModel, runs_out_of_receives_if_a_record_in_memory_is_leave_to_arm) {
    expect_wrong({.rearm = Rearm::after_any_arrival, .late_completions = false}, Wrong::no_receive);
}

TEST(ArrivalModel, loses_a_wake_up_if_an_immediate_without_a_record_is_no_leave_to_arm) {
    expect_wrong({.rearm = Rearm::after_a_record}, Wrong::lost_wake_up);
}

TEST(ArrivalModel, waits_for_ever_if_posted_is_one_count_of_records_and_credits) {
    expect_wrong({.things = "cc", .word_for_each_kind = false}, Wrong::waits_for_ever);
}

}  // namespace
}  // namespace verbatim::arrival_model

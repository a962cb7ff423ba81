// Every interleaving of the arrival protocol (docs/arrival.md), and of variants with one step left
// out, each of which must show a counterexample. Generations by note are those of
// core_arrival_notes_model_test.cpp.
#include <gtest/gtest.h>

#include <string_view>

#include "arrival_exploration.hpp"

namespace verbatim::arrival_model {
namespace {

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

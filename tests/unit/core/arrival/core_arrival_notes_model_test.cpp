// Every interleaving of the arrival protocol with notes (docs/arrival.md), and of variants with one
// step left out, each of which must show a counterexample. The receiver issues some generations at
// will, of any kind, at any time that the protocol allows.
#include <gtest/gtest.h>

#include <string_view>

#include "arrival_exploration.hpp"

namespace verbatim::arrival_model {
namespace {

// Lanes that sleep, and one that polls its notes for ever.
constexpr NotesVariant kSleeper{.changes = 2, .looks = Looks::as_told_and_unasked};
constexpr NotesVariant kPoller{.changes = 4, .looks = Looks::as_told_and_unasked, .sleeps = false};

Variant with(std::string_view things, NotesVariant notes, Small changes) {
    notes.changes = changes;
    return {.things = things, .notes = notes};
}

TEST(ArrivalNotesModel, lane_that_polls_finds_everything_by_its_notes) {
    for (const std::string_view things : {"r", "c", "rr", "rc", "cc", "rrr"})
        expect_right(with(things, kPoller, 4));
}

TEST(ArrivalNotesModel, lane_that_polls_may_change_its_mind_seven_times) {
    expect_right(with("r", kPoller, 7));
}

TEST(ArrivalNotesModel, lane_that_sleeps_is_woken_by_immediates) {
    for (const std::string_view things : {"r", "c", "rr", "rc"})
        expect_right(with(things, kSleeper, 2));
}

TEST(ArrivalNotesModel, lane_that_sleeps_may_change_its_mind_four_times) {
    expect_right(with("r", kSleeper, 4));
}

TEST(ArrivalNotesModel, wakes_although_another_connection_wakes_it) {
    Variant variant = with("r", kSleeper, 3);
    variant.disturbed = true;
    expect_right(variant);
}

TEST(ArrivalNotesModel, first_load_of_armed_only_saves_a_request) {
    Variant variant = with("rrr", kPoller, 4);
    variant.first_load = false;
    expect_right(variant);
}

TEST(ArrivalNotesModel, needs_no_look_at_memory_while_armed) {
    expect_right({.notes = {.looks = Looks::as_told}});
}

TEST(ArrivalNotesModel, three_blocks_are_enough_for_its_generations) {
    EXPECT_EQ(Exploration(with("r", kPoller, 7)).most_unretired(), 3u);
}

TEST(ArrivalNotesModel, note_may_count_from_the_completion_of_the_read_if_a_look_comes_behind) {
    NotesVariant notes = kPoller;
    notes.baseline = Baseline::behind_read_with_look;
    expect_right(with("rr", notes, 4));
}

TEST(ArrivalNotesModel, loses_a_note_if_it_counts_from_the_completion_of_the_read) {
    NotesVariant notes = kPoller;
    notes.baseline = Baseline::behind_read;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_note_without_the_read_of_posted) {
    NotesVariant notes = kPoller;
    notes.reads_posted = false;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_note_without_the_fence) {
    Variant variant = with("r", kPoller, 1);
    variant.fence = false;
    expect_wrong(variant, Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_note_if_it_does_not_await_what_posted_names) {
    Variant variant = with("r", kPoller, 1);
    variant.awaits_posted = false;
    expect_wrong(variant, Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_note_that_is_posted_before_its_thing) {
    NotesVariant notes = kPoller;
    notes.behind_thing = false;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_note_if_only_the_first_thing_of_a_generation_has_one) {
    NotesVariant notes = kPoller;
    notes.for_each_thing = false;
    expect_wrong(with("rr", notes, 1), Wrong::lost_wake_up);
}

// The last connection of this note wrote one, and the first note of this one is 1 too.
TEST(ArrivalNotesModel, loses_a_note_if_its_word_does_not_begin_at_0) {
    NotesVariant notes = kPoller;
    notes.left_over = 1;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_wake_up_if_a_generation_by_note_is_not_taken) {
    NotesVariant notes = kSleeper;
    notes.takes_generations = false;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, loses_a_wake_up_if_it_sleeps_with_notes) {
    NotesVariant notes = kSleeper;
    notes.sleeps_noted = true;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

// It would sleep while it is armed by note, and forgets it as if it were armed by immediate now.
TEST(ArrivalNotesModel, loses_a_wake_up_if_it_forgets_a_note_while_the_read_is_under_way) {
    NotesVariant notes = kSleeper;
    notes.keeps_look = false;
    expect_wrong(with("r", notes, 1), Wrong::lost_wake_up);
}

TEST(ArrivalNotesModel, is_called_hostile_if_generations_must_go_up_by_one) {
    NotesVariant notes = kPoller;
    notes.may_skip_generations = false;
    expect_wrong(with("r", notes, 2), Wrong::unexpected_armed);
}

TEST(ArrivalNotesModel, runs_out_of_blocks_if_a_silent_generation_does_not_await_the_read) {
    NotesVariant notes = kPoller;
    notes.silence_awaits_read = false;
    expect_wrong(with("r", notes, 4), Wrong::no_block);
}

}  // namespace
}  // namespace verbatim::arrival_model

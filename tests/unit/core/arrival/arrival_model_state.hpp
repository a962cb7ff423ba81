// What the model of the arrival protocol (docs/arrival.md) consists of: variants of the protocol,
// and the state of sender, receiver and network. Things that wake are records ('r') and credits
// that go alone ('c').
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace verbatim::arrival_model {

using Small = std::uint8_t;

enum class Read : Small { none, before_armed, behind_armed };
enum class Rearm : Small { when_notified, after_any_arrival, after_a_record, always };
// When the receiver looks at memory, while it is awake.
enum class Looks : Small { always, as_told, as_told_and_unasked };
// The value of its note from which a change counts.
enum class Baseline : Small { before_issue, behind_read, behind_read_with_look };

struct NotesVariant {
    Small changes = 0;  // generations that the receiver issues at will; 0: it takes no notes
    Looks looks = Looks::always;
    bool sleeps = true;             // else it polls notes for ever
    bool reads_posted = true;       // behind a generation by note
    bool behind_thing = true;       // else before it
    bool for_each_thing = true;     // else for the first one of a generation
    bool takes_generations = true;  // those that wait for no immediate
    bool sleeps_noted = false;      // without arming by immediate
    Baseline baseline = Baseline::before_issue;
    bool may_skip_generations = true;  // as the sender sees them
    bool silence_awaits_read = true;
    bool keeps_look = true;  // at the note, when it would sleep while it is being armed by note
    Small left_over = 0;     // what the note holds at the beginning
};

struct Variant {
    std::string_view things = "rrr";
    bool first_load = true;
    bool second_load = true;
    bool fence = true;  // between the store of posted and the second load
    Read read = Read::behind_armed;
    bool awaits_posted = true;       // is awake until memory holds what posted names
    bool word_for_each_kind = true;  // posted is one word for each kind of thing, not one count
    Rearm rearm = Rearm::when_notified;
    bool polls_queue_again = true, polls_memory_again = true;  // behind the arming of the queue
    bool late_completions = true;  // later data may be seen before a completion
    bool disturbed = false;        // another connection wakes the lane once
    NotesVariant notes{};
};

struct Fifo {
    std::array<Small, 12> items{};
    Small count = 0;

    void push(Small item) { items.at(count++) = item; }
    Small pop() {
        const Small first = items[0];
        for (std::size_t i = 1; i < items.size(); ++i) items[i - 1] = items[i];
        items[--count] = 0;
        return first;
    }
    bool operator==(const Fifo&) const = default;
};

// The kind of a generation, as the upper bits of armed.
enum class Kind : Small { by_immediate = 0, silent = 0x40, by_note = 0x80 };
constexpr Small armed_word(Small generation, Kind kind) {
    return static_cast<Small>(generation | static_cast<Small>(kind));
}
constexpr Small number_of(Small armed) { return armed & 15; }
constexpr Kind kind_of(Small armed) { return static_cast<Kind>(armed & 0xc0); }

// A request of the sender: thing and generation, 0 is none; or a note and its number.
inline constexpr Small kNote = 15;
constexpr Small request(Small thing, Small generation) {
    return static_cast<Small>(thing << 4 | generation);
}
constexpr bool is_note(Small request) { return request >> 4 == kNote; }
constexpr Small thing_of(Small request) {
    return is_note(request) ? Small{0} : static_cast<Small>(request >> 4);
}
constexpr Small generation_of(Small request) { return is_note(request) ? Small{0} : request & 15; }

struct Sender {
    bool looks_again = false;  // the next step is the second load
    Small sent = 0;            // things posted, and counted in posted as this processor sees it
    Small current = 0;         // the last armed that it has seen
    Small notified = 0;        // the same, where nothing more is to be told
    Small notes = 0;           // posted
    Small noted_before = 0;    // the generation whose note went before the last thing
    // Its memory. `posted` counts things; its words are the numbers of each kind among these.
    Small armed = 0, posted = 0;
    bool operator==(const Sender&) const = default;
};

inline constexpr unsigned kReceives = 2;  // posted again when their completions are polled
inline constexpr Small kReadDone = 15;    // in the completion queue; all others are immediates
struct Network {
    Fifo requests;      // of the sender, on the way
    Fifo executed;      // immediates whose completions are not visible yet
    Fifo writes;        // of armed, on the way to the sender
    Small sampled = 0;  // words of posted that the read has loaded
    Small read_records = 0, read_credits = 0;
    bool reading = false;    // a read is on the way to the sender
    bool answering = false;  // its answer is on the way back
    bool operator==(const Network&) const = default;
};

enum class ReceiverStep : Small {
    notes,
    memory,
    queue,
    arm_queue,
    queue_again,
    memory_again,
    asleep
};
struct Receiver {
    ReceiverStep step = ReceiverStep::notes;
    Small records = 0, credits = 0, noticed = 0;   // consumed; of both kinds
    Small wanted_records = 0, wanted_credits = 0;  // as posted named them; 0 once they have come
    Small issued = 0, taken = 0;     // generations: written to the sender; last one in a completion
    Kind kind = Kind::by_immediate;  // of the last generation
    bool awaits_read = false;
    bool arrived = false;     // since the last arming
    bool disturbed = false;   // was woken for another connection
    Small changes = 0;        // generations that were issued at will
    bool watches = false;     // looks at its note
    Small seen_note = 0;      // while it does
    bool is_visited = false;  // memory is looked at, as the note has changed
    // Requests that have not retired: all, and those behind the read.
    Small unretired = 0, behind_read = 0;
    bool operator==(const Receiver&) const = default;
};

// The receiver's memory and completion queue.
struct Arrivals {
    Small records = 0, credits = 0, note = 0;
    Fifo queue;
    bool queue_armed = false, event = false;
    bool operator==(const Arrivals&) const = default;
};

enum class Wrong : Small {
    nothing,
    lost_wake_up,          // nobody looks, although something lies in memory
    waits_for_ever,        // is awake for ever; would close an honest peer
    does_not_rest,         // has everything, and does not sleep armed
    no_receive,            // an immediate finds none: both completed, and are not polled
    unexpected_immediate,  // not issued, or repeated
    unexpected_armed,      // not above the last one, or not the next one
    out_of_order,
    no_block,  // more than three requests of the receiver have not retired
    endless,   // a cycle of states
};

struct State {
    Sender sender;
    Network network;
    Receiver receiver;
    Arrivals arrivals;
    Wrong wrong = Wrong::nothing;  // what the last action did
    bool operator==(const State&) const = default;
};
static_assert(std::has_unique_object_representations_v<State>, "states are hashed by their bytes");

}  // namespace verbatim::arrival_model

// The arrival protocol of docs/arrival.md as a model: one sender, one receiver and the network
// between them. Every action may come whenever it is possible; steps that no other part can tell
// apart are one action. Things that wake are records ('r') and credits that go alone ('c'). A
// variant leaves one step of the protocol out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace verbatim::arrival_model {

using Small = std::uint8_t;

enum class Read : Small { none, before_armed, behind_armed };
enum class Rearm : Small { when_notified, after_any_arrival, after_a_record, always };

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

// A request of the sender: thing and generation; 0 is none.
constexpr Small request(Small thing, Small generation) {
    return static_cast<Small>(thing << 4 | generation);
}
constexpr Small thing_of(Small request) { return request >> 4; }
constexpr Small generation_of(Small request) { return request & 15; }

struct Sender {
    bool looks_again = false;  // the next step is the second load
    Small sent = 0;            // things posted, and counted in posted as this processor sees it
    Small notified = 0;        // the generation of the last immediate
    // Its memory. `posted` counts things; its words are the numbers of each kind among these.
    Small armed = 0, posted = 0;
    bool operator==(const Sender&) const = default;
};

inline constexpr unsigned kReceives = 2;  // posted again when their completions are polled
inline constexpr Small kReadDone = 15;    // in the completion queue; all others are immediates
struct Network {
    Fifo requests;      // of the sender, on the way
    Fifo executed;      // immediates whose completions are not visible yet
    Small sampled = 0;  // words of posted that the read has loaded
    Small read_records = 0, read_credits = 0;
    bool reading = false;    // a read is on the way to the sender
    bool answering = false;  // its answer is on the way back
    bool operator==(const Network&) const = default;
};

enum class ReceiverStep : Small { memory, queue, arm_queue, queue_again, memory_again, asleep };
struct Receiver {
    ReceiverStep step = ReceiverStep::memory;
    Small records = 0, credits = 0, noticed = 0;   // consumed; of both kinds
    Small wanted_records = 0, wanted_credits = 0;  // as posted named them; 0 once they have come
    Small issued = 0, taken = 0;  // generations: written to the sender; last one in a completion
    bool awaits_read = false;
    bool arrived = false;    // since the last arming
    bool disturbed = false;  // was woken for another connection
    bool operator==(const Receiver&) const = default;
};

// The receiver's memory and completion queue.
struct Arrivals {
    Small records = 0, credits = 0;
    Fifo queue;
    bool queue_armed = false, event = false;
    bool operator==(const Arrivals&) const = default;
};

enum class Wrong : Small {
    nothing,
    lost_wake_up,          // sleeps for ever, although something lies in memory
    waits_for_ever,        // is awake for ever; would close an honest peer
    does_not_rest,         // has everything, and does not sleep armed
    no_receive,            // an immediate finds none: both completed, and are not polled
    unexpected_immediate,  // not issued, or repeated
    unexpected_armed,      // neither the generation notified last nor the next one
    out_of_order,
    endless,  // a cycle of states
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

enum class Action : Small {
    sender,
    drain_store,      // the oldest store in the sender's store buffer reaches memory
    execute_request,  // the oldest request of the sender: its data, then its immediate
    show_completion,
    write_armed,    // the receiver's write reaches the sender's memory
    sample_posted,  // its read loads the next word of posted
    answer_read,
    receiver,
    disturb,  // another connection wakes the lane
};
inline constexpr std::array kActions{
    Action::sender,          Action::drain_store, Action::execute_request,
    Action::show_completion, Action::write_armed, Action::sample_posted,
    Action::answer_read,     Action::receiver,    Action::disturb};

class Model {
  public:
    explicit Model(const Variant& variant) : variant_(variant) {}

    // The state behind an action; none where it is not possible.
    std::optional<State> after(State state, Action action) const;
    // What is wrong with a state that no action leaves.
    Wrong at_end(const State& state) const;
    // Posted by the sender, not polled by the receiver.
    static unsigned outstanding_immediates(const State& state);

  private:
    Small count(char kind, std::size_t first) const;
    bool step_sender(State& state) const;
    void post(State& state) const;
    void look_again(State& state) const;
    static void load_armed(State& state);
    static bool drain_store(State& state);
    bool execute_request(State& state) const;
    static bool show_completion(State& state);
    bool write_armed(State& state) const;
    bool sample_posted(State& state) const;
    static bool answer_read(State& state);
    bool disturb(State& state) const;
    bool step_receiver(State& state) const;
    bool consume(State& state) const;
    bool poll_queue(State& state) const;
    void take_completion(State& state) const;
    bool may_arm(const Receiver& receiver) const;
    void arm(State& state) const;
    void settle(Receiver& receiver) const;

    Variant variant_;
};

}  // namespace verbatim::arrival_model

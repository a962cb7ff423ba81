// The arrival protocol of docs/arrival.md as a model: one sender, one receiver and the network
// between them. Every action may come whenever it is possible; steps that no other part can tell
// apart are one action. A variant leaves one step of the protocol out.
#pragma once

#include <array>
#include <optional>

#include "arrival_model_state.hpp"

namespace verbatim::arrival_model {

enum class Action : Small {
    sender,
    drain_store,      // the oldest store in the sender's store buffer reaches memory
    execute_request,  // the oldest request of the sender: its data, then its immediate
    show_completion,
    write_armed,    // the receiver's oldest write reaches the sender's memory
    sample_posted,  // its read loads the next word of posted
    answer_read,
    receiver,
    // What need not come. A state that only these leave is an end.
    disturb,  // another connection wakes the lane
    arm_by_note,
    arm_by_immediate,
    go_silent,
    poll_on,       // instead of going to sleep
    look_unasked,  // at memory, as a receive of the program does
};
constexpr bool is_choice(Action action) { return action >= Action::disturb; }
inline constexpr std::array kActions{
    Action::sender,      Action::drain_store,   Action::execute_request,  Action::show_completion,
    Action::write_armed, Action::sample_posted, Action::answer_read,      Action::receiver,
    Action::disturb,     Action::arm_by_note,   Action::arm_by_immediate, Action::go_silent,
    Action::poll_on,     Action::look_unasked};

class Model {
  public:
    explicit Model(const Variant& variant) : variant_(variant) {}

    State beginning() const;
    // The state behind an action; none where it is not possible.
    std::optional<State> after(State state, Action action) const;
    // What is wrong with a state that the others' and the receiver's duties leave as it is.
    Wrong at_end(const State& state) const;
    // Posted by the sender, not polled by the receiver.
    static unsigned outstanding_immediates(const State& state);
    bool is_noted(const Receiver& receiver) const;

  private:
    Small count(char kind, std::size_t first) const;
    bool act(State& state, Action action) const;
    bool step_sender(State& state) const;
    void post(State& state) const;
    void look_again(State& state) const;
    void see_armed(State& state) const;
    static void post_note(State& state);
    static bool drain_store(State& state);
    bool execute_request(State& state) const;
    void execute_thing(State& state, Small thing) const;
    void execute_immediate(State& state, Small generation) const;
    static bool show_completion(State& state);
    bool write_armed(State& state) const;
    bool sample_posted(State& state) const;
    static bool answer_read(State& state);

    bool choose(State& state, Action action) const;
    bool disturb(State& state) const;
    bool poll_on(State& state) const;
    bool change(State& state, Kind kind) const;
    bool look_unasked(State& state) const;

    bool step_receiver(State& state) const;
    bool step_to_sleep(State& state) const;
    void look_at_note(State& state) const;
    bool look_at_memory(State& state) const;
    bool consume(State& state) const;
    bool poll_queue(State& state) const;
    bool rest(State& state) const;
    void take_completion(State& state) const;
    void take_words(State& state) const;
    void watch_behind_read(State& state) const;
    bool takes_notes() const { return variant_.notes.changes != 0; }
    ReceiverStep first_step() const {
        return takes_notes() ? ReceiverStep::notes : ReceiverStep::memory;
    }
    bool is_settling(const Receiver& receiver) const;
    bool is_armed(const Receiver& receiver) const;
    bool polls_memory(const Receiver& receiver) const;
    bool sees_news(const State& state) const;
    bool may_arm(const Receiver& receiver) const;
    bool may_go_silent(const Receiver& receiver) const;
    void issue(State& state, Kind kind) const;
    bool post_control(State& state, Kind kind) const;
    void settle(Receiver& receiver) const;

    Variant variant_;
};

bool has_news(const State& state);

}  // namespace verbatim::arrival_model

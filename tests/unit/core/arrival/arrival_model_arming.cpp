// Generations, and what the receiver may choose, in the model of the arrival protocol.
#include "arrival_model.hpp"

namespace verbatim::arrival_model {
namespace {

constexpr Small kMostGenerations = 9;  // where nothing else limits them
// Of the send queue's reserve, for requests of the receiver.
constexpr Small kMostUnretired = 3;

}  // namespace

bool Model::is_settling(const Receiver& receiver) const {
    return variant_.awaits_posted && (receiver.wanted_records | receiver.wanted_credits) != 0;
}

bool Model::is_noted(const Receiver& receiver) const {
    return receiver.kind == Kind::by_note && !receiver.awaits_read && !is_settling(receiver);
}

bool Model::is_armed(const Receiver& receiver) const {
    return receiver.kind == Kind::by_immediate && receiver.taken != receiver.issued &&
           !receiver.awaits_read && !is_settling(receiver);
}

bool Model::polls_memory(const Receiver& receiver) const {
    if (variant_.notes.looks == Looks::always) return true;
    return is_noted(receiver) ? receiver.is_visited : !is_armed(receiver);
}

bool Model::sees_news(const State& state) const {
    const Receiver& r = state.receiver;
    return (polls_memory(r) && has_news(state)) ||
           (r.watches && r.seen_note != state.arrivals.note);
}

bool Model::may_arm(const Receiver& receiver) const {
    if (receiver.issued == 0) return true;
    switch (variant_.rearm) {
        case Rearm::when_notified:
            return receiver.taken == receiver.issued;
        case Rearm::after_any_arrival:
        case Rearm::after_a_record:
            return receiver.arrived;
        case Rearm::always:
            return receiver.issued < kMostGenerations;
    }
    return false;
}

bool Model::may_go_silent(const Receiver& receiver) const {
    if (!variant_.notes.silence_awaits_read && receiver.kind == Kind::by_note) return true;
    return is_noted(receiver) && receiver.taken == receiver.issued;
}

void Model::issue(State& state, Kind kind) const {
    Receiver& r = state.receiver;
    ++r.issued;
    r.kind = kind;
    if (kind != Kind::by_immediate && variant_.notes.takes_generations) r.taken = r.issued;
    r.arrived = r.is_visited = false;
    r.watches = kind == Kind::by_note && variant_.notes.baseline == Baseline::before_issue;
    r.seen_note = r.watches ? state.arrivals.note : Small{0};
    if (post_control(state, kind)) r.awaits_read = state.network.reading = true;
}

// Posts the write, and the read if there is one.
bool Model::post_control(State& state, Kind kind) const {
    Receiver& r = state.receiver;
    state.network.writes.push(armed_word(r.issued, kind));
    const bool is_read_left_out =
        variant_.read == Read::none || (kind == Kind::by_note && !variant_.notes.reads_posted);
    if (is_read_left_out) return false;
    const bool reads = kind != Kind::silent;
    r.unretired = static_cast<Small>(r.unretired + (reads ? 2 : 1));
    if (r.awaits_read) ++r.behind_read;
    if (r.unretired > kMostUnretired) state.wrong = Wrong::no_block;
    return reads;
}

bool Model::choose(State& state, Action action) const {
    switch (action) {
        case Action::disturb:
            return disturb(state);
        case Action::arm_by_note:
            return change(state, Kind::by_note);
        case Action::arm_by_immediate:
            return change(state, Kind::by_immediate);
        case Action::go_silent:
            return change(state, Kind::silent);
        case Action::poll_on:
            return poll_on(state);
        default:
            return look_unasked(state);
    }
}

bool Model::disturb(State& state) const {
    Receiver& r = state.receiver;
    if (!variant_.disturbed || r.disturbed || r.step != ReceiverStep::asleep) return false;
    return state.arrivals.event = r.disturbed = true;
}

// A generation that no rest asks for: the lane has its reasons.
bool Model::change(State& state, Kind kind) const {
    Receiver& r = state.receiver;
    if (r.step > ReceiverStep::queue || r.changes == variant_.notes.changes) return false;
    const bool may =
        kind == Kind::silent ? may_go_silent(r) : may_arm(r) && !r.awaits_read && !is_settling(r);
    if (!may) return false;
    ++r.changes;
    issue(state, kind);
    return true;
}

bool Model::poll_on(State& state) const {
    Receiver& r = state.receiver;
    if (!takes_notes() || !variant_.notes.sleeps || r.step != ReceiverStep::queue) return false;
    r.step = first_step();
    return state.arrivals.queue.count == 0 && !is_settling(r) && sees_news(state);
}

bool Model::look_unasked(State& state) const {
    const Receiver& r = state.receiver;
    if (variant_.notes.looks != Looks::as_told_and_unasked) return false;
    return r.step <= ReceiverStep::queue && !polls_memory(r) && consume(state);
}

}  // namespace verbatim::arrival_model

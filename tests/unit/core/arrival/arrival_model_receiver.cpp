// The steps of the receiver in the model of the arrival protocol.
#include "arrival_model.hpp"

namespace verbatim::arrival_model {

bool has_news(const State& state) {
    return state.arrivals.records != state.receiver.records ||
           state.arrivals.credits != state.receiver.credits;
}

bool Model::step_receiver(State& state) const {
    Receiver& r = state.receiver;
    switch (r.step) {
        case ReceiverStep::notes:
            look_at_note(state);
            return true;
        case ReceiverStep::memory:
            return look_at_memory(state);
        case ReceiverStep::queue:
            return poll_queue(state);
        default:
            return step_to_sleep(state);
    }
}

bool Model::step_to_sleep(State& state) const {
    Receiver& r = state.receiver;
    Arrivals& a = state.arrivals;
    const bool sees_queue = variant_.polls_queue_again && a.queue.count != 0;
    const bool sees_memory = variant_.polls_memory_again && polls_memory(r) && has_news(state);
    if (r.step == ReceiverStep::arm_queue) {
        a.queue_armed = true;
        r.step = ReceiverStep::queue_again;
    } else if (r.step == ReceiverStep::queue_again) {
        r.step = sees_queue ? first_step() : ReceiverStep::memory_again;
    } else if (r.step == ReceiverStep::memory_again) {
        r.step = sees_memory ? first_step() : ReceiverStep::asleep;
    } else {
        if (!a.event) return false;
        a.event = false;
        r.step = first_step();
    }
    return true;
}

void Model::look_at_note(State& state) const {
    Receiver& r = state.receiver;
    if (r.watches && r.seen_note != state.arrivals.note) {
        r.seen_note = state.arrivals.note;
        r.is_visited = true;
    }
    r.step = ReceiverStep::memory;
}

// Until it finds nothing.
bool Model::look_at_memory(State& state) const {
    Receiver& r = state.receiver;
    if (polls_memory(r) && consume(state)) return true;
    r.is_visited = false;
    r.step = ReceiverStep::queue;
    return true;
}

// The next record, or the credit word if it has changed.
bool Model::consume(State& state) const {
    Receiver& r = state.receiver;
    if (!has_news(state)) return false;
    const bool is_record = r.records != state.arrivals.records;
    if (is_record)
        ++r.records;
    else
        r.credits = state.arrivals.credits;
    if (!variant_.word_for_each_kind) ++r.noticed;
    if (variant_.rearm != Rearm::when_notified) r.arrived = true;
    settle(r);
    return true;
}

// Takes a completion, or waits for what posted names, or rests.
bool Model::poll_queue(State& state) const {
    Receiver& r = state.receiver;
    if (state.arrivals.queue.count != 0) {
        take_completion(state);
        r.step = first_step();
        return true;
    }
    if (!is_settling(r) && variant_.notes.sleeps) return rest(state);
    r.step = first_step();
    return sees_news(state);
}

// Arms, or goes on to sleep. A read that is under way will wake.
bool Model::rest(State& state) const {
    Receiver& r = state.receiver;
    const bool is_forgotten = is_noted(r) && (!r.watches || variant_.notes.sleeps_noted);
    const bool arms = !is_forgotten && !r.awaits_read && may_arm(r);
    if (arms) issue(state, Kind::by_immediate);
    if (!variant_.notes.keeps_look && r.kind == Kind::by_note) {
        r.watches = false;
        r.seen_note = 0;
    }
    r.step = arms ? first_step() : ReceiverStep::arm_queue;
    return true;
}

// An immediate makes the connection hot, whatever the read of its arming has named.
void Model::take_completion(State& state) const {
    Receiver& r = state.receiver;
    const Small entry = state.arrivals.queue.pop();
    if (entry == kReadDone) return take_words(state);
    if (entry <= r.taken || entry > r.issued) state.wrong = Wrong::unexpected_immediate;
    r.taken = entry;
    if (variant_.rearm == Rearm::when_notified) r.wanted_records = r.wanted_credits = 0;
    if (variant_.rearm == Rearm::after_any_arrival) r.arrived = true;
}

void Model::take_words(State& state) const {
    Receiver& r = state.receiver;
    Network& n = state.network;
    const bool is_hot = r.kind != Kind::by_note && r.taken == r.issued;
    r.awaits_read = false;
    r.unretired = r.behind_read;
    r.behind_read = 0;
    if (!is_hot || variant_.rearm != Rearm::when_notified) {
        r.wanted_records = n.read_records;
        r.wanted_credits = n.read_credits;
    }
    n.read_records = n.read_credits = 0;
    settle(r);
    if (variant_.notes.baseline != Baseline::before_issue) watch_behind_read(state);
}

void Model::watch_behind_read(State& state) const {
    Receiver& r = state.receiver;
    if (r.kind != Kind::by_note) return;
    r.watches = true;
    r.seen_note = state.arrivals.note;
    r.is_visited = variant_.notes.baseline == Baseline::behind_read_with_look;
}

void Model::settle(Receiver& receiver) const {
    const Small records = variant_.word_for_each_kind ? receiver.records : receiver.noticed;
    if (records >= receiver.wanted_records) receiver.wanted_records = 0;
    if (receiver.credits >= receiver.wanted_credits) receiver.wanted_credits = 0;
}

}  // namespace verbatim::arrival_model

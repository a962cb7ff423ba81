// The steps of the receiver in the model of the arrival protocol.
#include "arrival_model.hpp"

namespace verbatim::arrival_model {
namespace {

constexpr Small kMostGenerations = 9;  // where nothing else limits them

bool has_news(const State& state) {
    return state.arrivals.records != state.receiver.records ||
           state.arrivals.credits != state.receiver.credits;
}

}  // namespace

bool Model::step_receiver(State& state) const {
    Receiver& r = state.receiver;
    Arrivals& a = state.arrivals;
    switch (r.step) {
        case ReceiverStep::memory:
            if (!consume(state)) r.step = ReceiverStep::queue;
            return true;
        case ReceiverStep::queue:
            return poll_queue(state);
        case ReceiverStep::arm_queue:
            a.queue_armed = true;
            r.step = ReceiverStep::queue_again;
            return true;
        case ReceiverStep::queue_again:
            r.step = variant_.polls_queue_again && a.queue.count != 0 ? ReceiverStep::memory
                                                                      : ReceiverStep::memory_again;
            return true;
        case ReceiverStep::memory_again:
            r.step = variant_.polls_memory_again && has_news(state) ? ReceiverStep::memory
                                                                    : ReceiverStep::asleep;
            return true;
        case ReceiverStep::asleep:
            if (!a.event) return false;
            a.event = false;
            r.step = ReceiverStep::memory;
            return true;
    }
    return false;
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

// Takes a completion; else goes on to sleep, unless it awaits what posted names.
bool Model::poll_queue(State& state) const {
    Receiver& r = state.receiver;
    if (state.arrivals.queue.count != 0) {
        take_completion(state);
        r.step = ReceiverStep::memory;
        return true;
    }
    if (variant_.awaits_posted && (r.wanted_records | r.wanted_credits) != 0) {
        r.step = ReceiverStep::memory;
        return has_news(state);
    }
    const bool arms = !r.awaits_read && may_arm(r);
    if (arms) arm(state);
    r.step = arms ? ReceiverStep::memory : ReceiverStep::arm_queue;
    return true;
}

void Model::take_completion(State& state) const {
    Receiver& r = state.receiver;
    Network& n = state.network;
    const Small entry = state.arrivals.queue.pop();
    if (entry == kReadDone) {
        r.awaits_read = false;
        r.wanted_records = n.read_records;
        r.wanted_credits = n.read_credits;
        n.read_records = n.read_credits = 0;
        return settle(r);
    }
    if (entry <= r.taken || entry > r.issued) state.wrong = Wrong::unexpected_immediate;
    r.taken = entry;
    if (variant_.rearm == Rearm::after_any_arrival) r.arrived = true;
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

void Model::arm(State& state) const {
    Receiver& r = state.receiver;
    ++r.issued;
    r.arrived = false;
    r.awaits_read = state.network.reading = variant_.read != Read::none;
}

void Model::settle(Receiver& receiver) const {
    const Small records = variant_.word_for_each_kind ? receiver.records : receiver.noticed;
    if (records >= receiver.wanted_records) receiver.wanted_records = 0;
    if (receiver.credits >= receiver.wanted_credits) receiver.wanted_credits = 0;
}

}  // namespace verbatim::arrival_model

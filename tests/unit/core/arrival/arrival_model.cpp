// What may happen in the model of the arrival protocol, and the actions of the network.
#include "arrival_model.hpp"

#include <algorithm>

namespace verbatim::arrival_model {
namespace {

// An event is raised only by a completion that comes when the queue is armed.
void complete(Arrivals& arrivals, Small entry) {
    arrivals.queue.push(entry);
    if (arrivals.queue_armed) arrivals.event = true;
    arrivals.queue_armed = false;
}

unsigned completed_immediates(const Fifo& queue) {
    return static_cast<unsigned>(std::count_if(queue.items.begin(),
                                               queue.items.begin() + queue.count,
                                               [](Small entry) { return entry != kReadDone; }));
}

}  // namespace

State Model::beginning() const {
    State state;
    state.receiver.step = first_step();
    state.arrivals.note = variant_.notes.left_over;
    return state;
}

std::optional<State> Model::after(State state, Action action) const {
    state.wrong = Wrong::nothing;
    if (!(is_choice(action) ? choose(state, action) : act(state, action))) return std::nullopt;
    return state;
}

bool Model::act(State& state, Action action) const {
    switch (action) {
        case Action::sender:
            return step_sender(state);
        case Action::drain_store:
            return drain_store(state);
        case Action::execute_request:
            return execute_request(state);
        case Action::show_completion:
            return show_completion(state);
        case Action::write_armed:
            return write_armed(state);
        case Action::sample_posted:
            return sample_posted(state);
        case Action::answer_read:
            return answer_read(state);
        default:
            return step_receiver(state);
    }
}

Wrong Model::at_end(const State& state) const {
    const Receiver& r = state.receiver;
    const bool sleeps = variant_.notes.sleeps, asleep = r.step == ReceiverStep::asleep;
    if (r.records != count('r', variant_.things.size()) ||
        r.credits != count('c', variant_.things.size()))
        return asleep || !polls_memory(r) ? Wrong::lost_wake_up : Wrong::waits_for_ever;
    if (asleep != sleeps || is_settling(r) || r.awaits_read) return Wrong::waits_for_ever;
    const bool is_told = state.sender.armed == state.sender.notified ||
                         kind_of(state.sender.armed) != Kind::by_immediate;
    return sleeps && is_told ? Wrong::does_not_rest : Wrong::nothing;
}

unsigned Model::outstanding_immediates(const State& state) {
    const Fifo& requests = state.network.requests;
    const auto posted =
        std::count_if(requests.items.begin(), requests.items.begin() + requests.count,
                      [](Small entry) { return generation_of(entry) != 0; });
    return static_cast<unsigned>(posted) + state.network.executed.count +
           completed_immediates(state.arrivals.queue);
}

// How many of the first things are of this kind.
Small Model::count(char kind, std::size_t first) const {
    return static_cast<Small>(
        std::count(variant_.things.begin(), variant_.things.begin() + first, kind));
}

// The data become visible, an immediate takes its receive; the completion may come later.
bool Model::execute_request(State& state) const {
    Network& n = state.network;
    if (n.requests.count == 0) return false;
    if (!variant_.late_completions && n.executed.count != 0) return false;
    const Small entry = n.requests.pop();
    if (is_note(entry)) state.arrivals.note = entry & 15;
    if (const Small generation = generation_of(entry); generation != 0)
        execute_immediate(state, generation);
    if (const Small thing = thing_of(entry); thing != 0) execute_thing(state, thing);
    return true;
}

void Model::execute_thing(State& state, Small thing) const {
    const char kind = variant_.things[thing - 1u];
    Small& word = kind == 'r' ? state.arrivals.records : state.arrivals.credits;
    const Small number = count(kind, thing);
    if (number != word + 1) state.wrong = Wrong::out_of_order;
    word = number;
}

void Model::execute_immediate(State& state, Small generation) const {
    Network& n = state.network;
    if (n.executed.count + completed_immediates(state.arrivals.queue) == kReceives)
        state.wrong = Wrong::no_receive;
    n.executed.push(generation);
}

bool Model::show_completion(State& state) {
    if (state.network.executed.count == 0) return false;
    complete(state.arrivals, state.network.executed.pop());
    return true;
}

bool Model::write_armed(State& state) const {
    Network& n = state.network;
    if (n.writes.count == 0) return false;
    if (variant_.read == Read::before_armed && n.reading) return false;
    state.sender.armed = n.writes.pop();
    return true;
}

// The words are loaded one by one.
bool Model::sample_posted(State& state) const {
    Network& n = state.network;
    const bool is_behind = variant_.read == Read::behind_armed;
    if (!n.reading || (is_behind && n.writes.count != 0)) return false;
    const Small posted = state.sender.posted;
    const bool is_one_word = !variant_.word_for_each_kind;
    if (n.sampled++ == 0)
        n.read_records = is_one_word ? posted : count('r', posted);
    else
        n.read_credits = count('c', posted);
    if (n.sampled == 2 || is_one_word || variant_.things.find('c') == std::string_view::npos)
        n.reading = false, n.answering = true, n.sampled = 0;
    return true;
}

bool Model::answer_read(State& state) {
    if (!state.network.answering) return false;
    state.network.answering = false;
    complete(state.arrivals, kReadDone);
    return true;
}

}  // namespace verbatim::arrival_model

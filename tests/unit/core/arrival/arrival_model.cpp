// The actions of sender and network in the model of the arrival protocol.
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

std::optional<State> Model::after(State state, Action action) const {
    const auto happens = [&] {
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
            case Action::receiver:
                return step_receiver(state);
            case Action::disturb:
                return disturb(state);
        }
        return false;
    };
    state.wrong = Wrong::nothing;
    if (!happens()) return std::nullopt;
    return state;
}

Wrong Model::at_end(const State& state) const {
    const bool asleep = state.receiver.step == ReceiverStep::asleep;
    if (state.receiver.records != count('r', variant_.things.size()) ||
        state.receiver.credits != count('c', variant_.things.size()))
        return asleep ? Wrong::lost_wake_up : Wrong::waits_for_ever;
    if (!asleep) return Wrong::waits_for_ever;
    return state.sender.armed == state.sender.notified ? Wrong::does_not_rest : Wrong::nothing;
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

bool Model::step_sender(State& state) const {
    Sender& s = state.sender;
    if (s.looks_again) {
        if (variant_.fence && s.posted != s.sent) return false;
        look_again(state);
        s.looks_again = false;
        return true;
    }
    if (s.sent == variant_.things.size()) return false;
    post(state);
    s.looks_again = variant_.second_load;
    return true;
}

// Load, post, store: the store waits in the store buffer, the request in the queue.
void Model::post(State& state) const {
    Sender& s = state.sender;
    const bool tells = variant_.first_load && s.armed != s.notified;
    if (tells) load_armed(state);
    state.network.requests.push(request(++s.sent, tells ? s.notified : Small{0}));
}

void Model::look_again(State& state) const {
    Sender& s = state.sender;
    if (s.armed == s.notified) return;
    load_armed(state);
    state.network.requests.push(request(0, s.notified));
}

// A generation that will be notified.
void Model::load_armed(State& state) {
    Sender& s = state.sender;
    if (s.armed != s.notified + 1) state.wrong = Wrong::unexpected_armed;
    s.notified = s.armed;
}

bool Model::drain_store(State& state) {
    if (state.sender.posted == state.sender.sent) return false;
    ++state.sender.posted;
    return true;
}

// The data become visible, an immediate takes its receive; the completion may come later.
bool Model::execute_request(State& state) const {
    Network& n = state.network;
    if (n.requests.count == 0) return false;
    if (!variant_.late_completions && n.executed.count != 0) return false;
    const Small entry = n.requests.pop();
    if (const Small generation = generation_of(entry); generation != 0) {
        if (n.executed.count + completed_immediates(state.arrivals.queue) == kReceives)
            state.wrong = Wrong::no_receive;
        n.executed.push(generation);
    }
    if (const Small thing = thing_of(entry); thing != 0) {
        const char kind = variant_.things[thing - 1u];
        Small& word = kind == 'r' ? state.arrivals.records : state.arrivals.credits;
        const Small number = count(kind, thing);
        if (number != word + 1) state.wrong = Wrong::out_of_order;
        word = number;
    }
    return true;
}

bool Model::show_completion(State& state) {
    if (state.network.executed.count == 0) return false;
    complete(state.arrivals, state.network.executed.pop());
    return true;
}

bool Model::write_armed(State& state) const {
    if (state.sender.armed == state.receiver.issued) return false;
    if (variant_.read == Read::before_armed && state.network.reading) return false;
    ++state.sender.armed;
    return true;
}

// The words are loaded one by one.
bool Model::sample_posted(State& state) const {
    Network& n = state.network;
    const bool is_behind = variant_.read == Read::behind_armed;
    if (!n.reading || (is_behind && state.sender.armed != state.receiver.issued)) return false;
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

bool Model::disturb(State& state) const {
    Receiver& r = state.receiver;
    if (!variant_.disturbed || r.disturbed || r.step != ReceiverStep::asleep) return false;
    return state.arrivals.event = r.disturbed = true;
}

}  // namespace verbatim::arrival_model

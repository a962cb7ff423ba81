// The steps of the sender in the model of the arrival protocol.
#include "arrival_model.hpp"

namespace verbatim::arrival_model {

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
    const bool tells = s.armed != s.notified;
    const bool by_immediate =
        tells && variant_.first_load && kind_of(s.armed) == Kind::by_immediate;
    const bool by_note = tells && !variant_.notes.behind_thing && kind_of(s.armed) == Kind::by_note;
    if (by_immediate || by_note) see_armed(state);
    if (by_immediate) s.notified = s.armed;
    s.noted_before = by_note ? s.armed : Small{0};
    if (by_note) post_note(state);
    const Small immediate = by_immediate ? number_of(s.armed) : Small{0};
    state.network.requests.push(request(++s.sent, immediate));
}

void Model::look_again(State& state) const {
    Sender& s = state.sender;
    if (s.armed == s.notified) return;
    see_armed(state);
    const Kind kind = kind_of(s.armed);
    if (kind == Kind::by_immediate) state.network.requests.push(request(0, number_of(s.armed)));
    if (kind == Kind::by_note && s.armed != s.noted_before) post_note(state);
    if (kind != Kind::by_note || !variant_.notes.for_each_thing) s.notified = s.armed;
}

// A word that differs from the last one must have a later generation; without notes the next one.
void Model::see_armed(State& state) const {
    Sender& s = state.sender;
    if (s.armed == s.current) return;
    const Small now = number_of(s.armed), before = number_of(s.current);
    const bool may_skip = takes_notes() && variant_.notes.may_skip_generations;
    if (may_skip ? now <= before : now != before + 1) state.wrong = Wrong::unexpected_armed;
    s.current = s.armed;
}

void Model::post_note(State& state) {
    state.network.requests.push(request(kNote, ++state.sender.notes));
}

bool Model::drain_store(State& state) {
    if (state.sender.posted == state.sender.sent) return false;
    ++state.sender.posted;
    return true;
}

}  // namespace verbatim::arrival_model

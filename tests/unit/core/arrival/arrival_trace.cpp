// Actions as lines of a counterexample.
#include "arrival_trace.hpp"

namespace verbatim::arrival_model {
namespace {

std::string generation_text(Small armed) {
    const Kind kind = kind_of(armed);
    return std::to_string(number_of(armed)) + (kind == Kind::by_note  ? " by note"
                                               : kind == Kind::silent ? " silent"
                                                                      : "");
}

std::string describe_requests(const State& from, const State& to) {
    const Fifo& requests = to.network.requests;
    std::string text;
    for (Small at = from.network.requests.count; at < requests.count; ++at) {
        const Small entry = requests.items[at];
        if (!text.empty()) text += ", then ";
        if (is_note(entry))
            text += "note " + std::to_string(entry & 15);
        else if (thing_of(entry) != 0)
            text += "thing " + std::to_string(thing_of(entry));
        if (generation_of(entry) != 0) text += " immediate " + std::to_string(generation_of(entry));
    }
    return text;
}

std::string describe_sender(const State& from, const State& to) {
    const std::string text = from.sender.looks_again ? "S loads armed again: " : "S posts ";
    const std::string posts = describe_requests(from, to);
    if (!posts.empty()) return text + posts;
    return text + (from.sender.notified == to.sender.notified ? "nothing new" : "silent");
}

std::string describe_receiver(const State& from, const State& to) {
    static constexpr const char* kSteps[]{"looks at its note",
                                          "looks at memory",
                                          "polls the queue",
                                          "arms the queue",
                                          "polls the queue again",
                                          "looks at memory again",
                                          "wakes"};
    const Receiver &before = from.receiver, &now = to.receiver;
    const std::string text = std::string("R ") + kSteps[static_cast<int>(before.step)];
    if (now.issued != before.issued)
        return text + ", writes armed = " + generation_text(armed_word(now.issued, now.kind));
    if (now.taken != before.taken) return text + ": immediate " + std::to_string(now.taken);
    if (now.records != before.records) return text + ": record " + std::to_string(now.records);
    if (now.is_visited && !before.is_visited) return text + ": it has changed";
    if (before.awaits_read && !now.awaits_read) return text + ": the read";
    return text + (now.step == ReceiverStep::asleep ? ", sleeps" : "");
}

std::string describe_network(Action action, const State& to) {
    switch (action) {
        case Action::drain_store:
            return "posted = " + std::to_string(to.sender.posted) + " is in memory";
        case Action::execute_request:
            return "the next request of S is executed";
        case Action::show_completion:
            return "its completion is in the queue";
        case Action::write_armed:
            return "armed = " + generation_text(to.sender.armed) + " is in memory";
        case Action::sample_posted:
            return "the read loads posted";
        default:
            return "the read completes: " + std::to_string(to.network.read_records);
    }
}

std::string describe_choice(Action action, const State& to) {
    switch (action) {
        case Action::disturb:
            return "another connection wakes R";
        case Action::poll_on:
            return "R polls on";
        case Action::look_unasked:
            return "R looks at memory unasked: record " + std::to_string(to.receiver.records);
        default:
            return "R changes its mind, writes armed = " +
                   generation_text(armed_word(to.receiver.issued, to.receiver.kind));
    }
}

}  // namespace

std::string describe(const State& from, Action action, const State& to) {
    if (is_choice(action)) return describe_choice(action, to);
    if (action == Action::sender) return describe_sender(from, to);
    if (action == Action::receiver) return describe_receiver(from, to);
    return describe_network(action, to);
}

}  // namespace verbatim::arrival_model

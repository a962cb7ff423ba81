// Transfers that two processes do step by step, in turn: the test decides after which step the
// other process goes.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core_fault.hpp"
#include "objects_hand_made.hpp"
#include "objects_stories.hpp"
#include "softnic_process.hpp"

namespace verbatim::steps {

// Also of the peers that are forked later: how long a call, and the end of a connection to a
// stopped peer, may take.
inline std::chrono::milliseconds connect_timeout{500};

inline Config config() {
    Config config = test::small_config();
    config.receive_arena.max_bytes = std::size_t{32} << 20;
    config.ring.bytes = 4096;  // so that steps are short
    config.connect.timeout = connect_timeout;
    config.objects.eager_bytes = 1024;
    config.objects.window_max = std::size_t{1} << 20;
    config.objects.max_graph_bytes = std::size_t{4} << 20;
    config.objects.window_budget = std::size_t{8} << 20;
    config.objects.timeout = std::chrono::milliseconds(100);
    return config;
}

using Step = std::function<bool()>;

// One step, and a moment for what it waits for.
template <class Operation>
bool step(Operation& operation, Connection& connection) {
    if (operation.step()) return true;
    connection.pause(1'000, Deadline::after(std::chrono::milliseconds(2)));
    return operation.step();
}

enum class Role : std::uint8_t {
    sends,
    cancels,   // and sends another graph then
    receives,  // a graph, which it releases, and another one
    refuses,   // both graphs, by their type
    forwards,  // a graph that it receives, back to its sender
    hoards,    // begins a graph with each step, and has memory lent for it
};
// What the test does beside it.
inline bool is_received_from(Role role) { return role != Role::receives && role != Role::refuses; }
inline bool is_sent_to(Role role) { return !is_received_from(role) || role == Role::forwards; }

// A step of that role is true when nothing is left to do.
template <class S>
Step sending(Connection& connection, bool cancels) {
    struct State {
        StoryMaker<S> maker;
        OtherStory other{3};
        std::optional<SendOperation<S>> story;
        std::optional<SendOperation<OtherStory>> next;
        int steps = 0;
    };
    auto state = std::make_shared<State>();
    state->story.emplace(connection, state->maker.story);
    return [state, &connection, cancels] {
        if (state->next) return step(*state->next, connection);
        const bool is_done = step(*state->story, connection);
        if (!cancels) return is_done;
        if (++state->steps == 3) {
            state->story.reset();
            state->next.emplace(connection, state->other);
        }
        return false;
    };
}
template <class T>
Step receiving(Connection& connection, int graphs) {
    struct State {
        std::optional<ReceiveOperation<T>> operation;
        int left;
    };
    auto state = std::make_shared<State>();
    state->left = graphs;
    return [state, &connection] {
        if (state->left == 0) return true;
        if (!state->operation) state->operation.emplace(connection);
        try {
            if (!step(*state->operation, connection)) return false;
            (void)state->operation->take();
        } catch (const Error& error) {
            if (error.code() != Errc::type_mismatch) throw;
        }
        state->operation.reset();
        return --state->left == 0;
    };
}

// As the graph came; one of classes by a walk.
template <class S>
Step forwarding(Connection& connection) {
    struct State {
        explicit State(Connection& from) : receiving(from, {.forwardable = true}) {}
        ReceiveOperation<S> receiving;
        std::optional<Received<S>> story;
        std::optional<ReceivedSendOperation<S>> back;
    };
    return [state = std::make_shared<State>(connection), &connection] {
        if (state->back) return step(*state->back, connection);
        if (!step(state->receiving, connection)) return false;
        state->story.emplace(state->receiving.take());
        if (std::is_same_v<S, Story> && !state->story->is_forwardable())
            throw Error(Errc::unsupported, "test", "the forwarder has no image");
        state->back.emplace(connection, *state->story);
        return false;
    };
}

template <class S>
Step hoarding(Connection& connection) {
    return [peer = std::make_shared<test::HandMadeSender>(connection), &connection,
            id = std::uint64_t{0}, is_heard = true]() mutable {
        Message message;
        while (connection.try_receive(message) == Errc::ok) continue;  // what was lent
        if (is_heard && peer->template begin<S>(id + 1) == Errc::ok) ++id, is_heard = false;
        is_heard = is_heard || peer->insist(id, 8) == Errc::ok;
        return false;
    };
}

template <class S>
Step step_of(Role role, Connection& connection) {
    switch (role) {
        case Role::hoards:
            return hoarding<S>(connection);
        case Role::receives:
            return receiving<S>(connection, 2);
        case Role::forwards:
            return forwarding<S>(connection);
        case Role::refuses:
            return receiving<OtherStory>(connection, 2);
        default:
            return sending<S>(connection, role == Role::cancels);
    }
}

// A process with such a role. It is forked idle.
class Stepped {
  public:
    using MakeStep = Step (*)(Role, Connection&);  // it has this program's functions
    bool begin(Role role, std::uint16_t port, MakeStep make = &step_of<Story>) {
        return child_.wire().put(role) && child_.wire().put(port) && child_.wire().put(make);
    }
    // One step there. True once nothing is left.
    bool step() {
        char answer = 0;
        if (!child_.wire().signal() || !child_.wire().get(answer))
            ADD_FAILURE() << "the peer has ended by itself";
        return answer != 'n';
    }
    void end(int signal) {
        child_.kill(signal);
        if (signal == SIGKILL) {
            EXPECT_EQ(child_.reap(), -SIGKILL);
        }
    }

  private:
    static int run(softnic::test::Wire& wire) {
        Role role{};
        std::uint16_t port = 0;
        MakeStep make = nullptr;
        if (!wire.get(role) || !wire.get(port) || !wire.get(make)) return 0;
        Context context(config());
        Connection connection = context.connect(test::local(port));
        const Step step = make(role, connection);
        while (wire.wait())
            if (!wire.put(step() ? 'y' : 'n')) return 1;
        return 0;
    }
    softnic::test::Child child_{run};
};

}  // namespace verbatim::steps

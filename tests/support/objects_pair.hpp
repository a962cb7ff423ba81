// Both ends of a transfer of graphs, in one thread or two.
#pragma once

#include <verbatim/objects.hpp>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

struct Pair : ConnectedPair {
    using ConnectedPair::ConnectedPair;

    // Drives both ends from this thread until both are done. Either end's Error leaves the other to
    // the caller.
    template <class T>
    Received<T> transfer(const T& root, SendOptions options = {}) {
        SendOperation<T> sending(*sender, root, options);
        ReceiveOperation<T> receiving(*receiver);
        bool sent = false, received = false;
        for (const Deadline deadline = Deadline::after(std::chrono::seconds(20));
             !sent || !received;) {
            sent = sent || sending.step();
            received = received || receiving.step();
            if (deadline.passed()) throw Error(Errc::timeout, "test transfer", "it does not end");
        }
        return receiving.take();
    }
};

}  // namespace verbatim::test

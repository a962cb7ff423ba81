// Two connections between the same two contexts, with what tests of graphs on connections share.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "objects_pair.hpp"

namespace verbatim::test {

struct TwoConnections : Pair {
    explicit TwoConnections(const Config& receiving = small_config())
        : Pair(small_config(), receiving) {
        Listener listener = receiver_context.listen("127.0.0.1:0");
        std::thread accepting([&] {
            other_receiver.emplace(listener.accept(Deadline::after(std::chrono::seconds(10))));
        });
        other_sender.emplace(
            sender_context.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }
    std::optional<Connection> other_sender, other_receiver;
};

}  // namespace verbatim::test

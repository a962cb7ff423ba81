#include "verbatim_pair.hpp"

#include <fmt/format.h>

#include <future>

namespace bench_graph {

namespace {

std::unique_ptr<verbatim::Context> make_context(std::size_t arena_bytes,
                                                std::size_t receive_bytes) {
    verbatim::Config config;
    config.device.kind = "softnic";
    config.arena.initial_bytes = arena_bytes;
    config.receive_arena.initial_bytes = receive_bytes;
    return std::make_unique<verbatim::Context>(config);
}

}  // namespace

VerbatimPair::VerbatimPair(std::size_t graph_bytes)
    : sender_(make_context(graph_bytes + graph_bytes / 8, 0)),
      receiver_(make_context(0, graph_bytes + graph_bytes / 8)) {
    using std::chrono::seconds;
    verbatim::Listener listener = receiver_->listen("127.0.0.1:0");
    auto accepted = std::async(std::launch::async, [&listener] {
        return std::make_unique<verbatim::Connection>(
            listener.accept(verbatim::Deadline::after(seconds(10))));
    });
    sending_ = std::make_unique<verbatim::Connection>(
        sender_->connect(fmt::format("127.0.0.1:{}", listener.port())));
    receiving_ = accepted.get();
}

}  // namespace bench_graph

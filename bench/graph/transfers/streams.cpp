// An array of 2^20 elements in parts. Cases stream_*: chunks of so many elements, each a graph of
// its own (Naos, ATC'21, Figure 9); their floor is the general floor of the whole. Cases
// pipeline_*: one graph, elapsed time (Figure 10). verbatim.pipelined: mended while it comes in.
// verbatim.whole: mended when all of it has come.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "../floors/general.hpp"
#include "../workloads/sequences.hpp"
#include "graph_transfer.hpp"

namespace bench_graph {
namespace {

// Receives all chunks when it is told to, releases each before the next, and says the sum of the
// last one.
template <class Root>
void serve_chunks(Channel& channel, std::size_t receive_bytes, std::size_t chunks) {
    const auto context = make_context(0, receive_bytes);
    const auto connection = accept_one(*context, channel);
    std::optional<verbatim::Received<Root>> received;
    while (true) {
        if (static_cast<Request>(channel.receive()) == Request::sum) {
            channel.send(sum_of(**received));
            continue;
        }
        for (std::size_t n = 0; n < chunks; ++n) {
            received.reset();
            received.emplace(verbatim::receive<Root>(*connection));
        }
        channel.send(0);
    }
}

// `workload` is one chunk.
template <class W>
class ChunkTransfer final : public Subject {
  public:
    using Root = typename W::Root;
    ChunkTransfer(W workload, std::size_t chunks) : workload_(std::move(workload)), roots_(chunks) {
        for (const Root*& root : roots_) root = workload_.make(context_->arena());
    }

    std::uint64_t objects() const override { return roots_.size() * workload_.objects(); }
    std::uint64_t bytes() const override { return wire_bytes_; }
    void transfer() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::receive));
        wire_bytes_ = 0;
        for (const Root* root : roots_)
            wire_bytes_ += verbatim::send(*connection_, *root).wire_bytes;
        receiver_.channel().receive();
    }
    bool verify() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::sum));
        return receiver_.channel().receive() == sum_of(*roots_.back());
    }
    double other_process_ns() const override { return receiver_.cpu_ns(); }

  private:
    std::size_t room() const { return roots_.size() * workload_.bytes() * 9 / 8; }

    W workload_;
    std::vector<const Root*> roots_;
    ReceiverProcess receiver_{
        [this](Channel& channel) { serve_chunks<Root>(channel, room(), roots_.size()); }};
    std::unique_ptr<verbatim::Context> context_ = make_context(room(), 0);
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, receiver_.channel());
    std::uint64_t wire_bytes_ = 0;
};

template <class W>
void add_chunks(W workload, std::size_t elements) {
    const std::string name = fmt::format("stream_{}_{}", workload.name, elements);
    const std::size_t chunks = workload.count / elements;
    W whole = workload;
    whole.name = workload.name = name;
    workload.count = elements;
    add_subject(name, "verbatim.arena",
                [=] { return std::make_unique<ChunkTransfer<W>>(workload, chunks); });
    add_subject(name, "floor", [=] { return std::make_unique<GeneralFloor<W>>(whole); });
}

template <class W>
void add_pipeline(W workload) {
    workload.name = "pipeline_" + workload.name;
    add_styled_transfer(workload, "verbatim.pipelined", {}, Measure::elapsed);
    add_styled_transfer(workload, "verbatim.whole", {.whole = true}, Measure::elapsed);
    add_subject(
        workload.name, "floor", [=] { return std::make_unique<GeneralFloor<W>>(workload); },
        Measure::elapsed);
}

}  // namespace

void add_streams() {
    for (const std::size_t elements : {64u, 1024u, 16384u, 262144u}) {
        add_chunks(Points{{"points"}}, elements);
        add_chunks(Pairs{{"pairs"}}, elements);
    }
    add_pipeline(Points{{"points"}});
    add_pipeline(Pairs{{"pairs"}});
}

}  // namespace bench_graph

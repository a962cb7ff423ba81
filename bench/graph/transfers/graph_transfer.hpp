// A transfer of a graph by verbatim::send() and verbatim::receive(), from this process to another
// one. Both sides' processor time counts. Only the public calls are used here.
#pragma once

#include <optional>

#include <verbatim/objects.hpp>

#include "../subject.hpp"
#include "../workloads/workload.hpp"
#include "receiver_process.hpp"

namespace bench_graph {

enum class Request : std::uint64_t { receive, sum };

// acyclic: sent as such. hostile: received with [objects] hostile. whole: the receiver begins its
// walk when the last byte has come.
struct Style {
    bool acyclic = false, hostile = false, whole = false;
};

template <class Root>
verbatim::Received<Root> receive_as(verbatim::Connection& connection, const Style& style) {
    while (style.whole && !verbatim::readable(connection)) {
    }
    return verbatim::receive<Root>(connection);
}

// Receives when it is told to, and says the sum of what it holds.
template <class Root>
void serve_graphs(Channel& channel, std::size_t receive_bytes, const Style& style) {
    const auto context = make_context(0, receive_bytes, style.hostile);
    const auto connection = accept_one(*context, channel);
    std::optional<verbatim::Received<Root>> received;
    while (true) {
        if (static_cast<Request>(channel.receive()) == Request::sum) {
            channel.send(sum_of(**received));
            continue;
        }
        received.reset();
        received.emplace(receive_as<Root>(*connection, style));
        channel.send(0);
    }
}

template <class W>
class GraphTransfer final : public Subject {
  public:
    using Root = typename W::Root;
    explicit GraphTransfer(W workload, Style style = {})
        : workload_(std::move(workload)), style_(style) {}

    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return wire_bytes_; }
    void transfer() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::receive));
        wire_bytes_ = verbatim::send(*connection_, *root_, {.acyclic = style_.acyclic}).wire_bytes;
        receiver_.channel().receive();
    }
    bool verify() override {
        receiver_.channel().send(static_cast<std::uint64_t>(Request::sum));
        return receiver_.channel().receive() == sum_of(*root_);
    }
    double other_process_ns() const override { return receiver_.cpu_ns(); }

  private:
    std::pmr::memory_resource& source() {
        if (workload_.place == Place::heap) return heap_;
        return context_->arena();
    }
    std::size_t room() const { return workload_.bytes() + workload_.bytes() / 8; }

    W workload_;
    Style style_;
    ReceiverProcess receiver_{[bytes = room(), style = style_](Channel& channel) {
        serve_graphs<Root>(channel, bytes, style);
    }};
    std::unique_ptr<verbatim::Context> context_ = make_context(room(), 0);
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, receiver_.channel());
    HeapMemory heap_;
    const Root* root_ = workload_.make(source());
    std::uint64_t wire_bytes_ = 0;
};

template <class W>
void add_graph_transfer(const W& workload, Measure measure = Measure::warm) {
    add_subject(
        workload.name, workload.place == Place::heap ? "verbatim.heap" : "verbatim.arena",
        [=] { return std::make_unique<GraphTransfer<W>>(workload); }, measure);
}

template <class W>
void add_styled_transfer(const W& workload, const std::string& subject, Style style,
                         Measure measure = Measure::warm) {
    add_subject(
        workload.name, subject, [=] { return std::make_unique<GraphTransfer<W>>(workload, style); },
        measure);
}

}  // namespace bench_graph

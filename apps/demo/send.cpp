// verbatim-demo-send: parses a package database, links it, sends the graph to
// verbatim-demo-receive, and prints what it sent.
#include <memory_resource>

#include <verbatim/objects.hpp>

#include "packages/build_graph.hpp"
#include "packages/totals.hpp"
#include "program.hpp"

namespace {

struct SendOptions : demo::Options {
    std::string peer;
    std::string input = "/var/lib/dpkg/status";
    std::size_t at_least = 0;
    bool heap = false;

    void add_to(CLI::App& app) {
        app.add_option("--connect", peer, "host:port of the receiver")->required();
        app.add_option("--input", input, "package database")->capture_default_str();
        app.add_option(
            "--replicate", at_least,
            "repeat the database, with names made different, until it has so many packages");
        app.add_flag("--heap", heap, "build the graph on the ordinary heap instead of an arena");
        demo::Options::add_to(app);
    }
};

demo::Transfer send_rounds(verbatim::Connection& connection, const packages::Graph& graph,
                           const SendOptions& options) {
    demo::Transfer transfer;
    for (unsigned round = 0; round < options.rounds; ++round) {
        const auto start = demo::Clock::now();
        const verbatim::SendReport report =
            verbatim::send(connection, graph, {.deadline = options.deadline()});
        transfer.rounds.push_back(demo::Clock::now() - start);
        transfer.objects = report.objects;
        transfer.object_bytes = report.object_bytes;
        transfer.back_pointers = report.records;
        transfer.wire_bytes = report.wire_bytes;
    }
    return transfer;
}

void run(const SendOptions& options) {
    const packages::Database database = packages::load_database(options.input);
    const auto context = options.open_context();
    std::pmr::monotonic_buffer_resource heap;
    std::pmr::memory_resource& memory =
        options.heap ? static_cast<std::pmr::memory_resource&>(heap) : context->arena();
    const packages::Graph* graph = packages::build_graph(database, memory, options.at_least);
    verbatim::Connection connection = context->connect(options.peer);
    const demo::Transfer transfer = send_rounds(connection, *graph, options);
    demo::print(packages::to_text(packages::totals(*graph)) + transfer.to_text());
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Sends the graph of a Debian package database.", "verbatim-demo-send");
    SendOptions options;
    options.add_to(app);
    return demo::run(app, argc, argv, [&options] { run(options); });
}

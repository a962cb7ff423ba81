// verbatim-demo-receive: waits for verbatim-demo-send, receives its graph, walks it and prints what
// it found.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <verbatim/objects.hpp>

#include "packages/graph.hpp"
#include "packages/totals.hpp"
#include "program.hpp"

namespace {

struct ReceiveOptions : demo::Options {
    std::string address;
    std::string port_file;

    void add_to(CLI::App& app) {
        app.add_option("--listen", address, "host:port; port 0 lets the system choose")->required();
        app.add_option("--port-file", port_file, "file to write the port to, once it listens");
        demo::Options::add_to(app);
    }
};

// By renaming: who sees the file sees the whole number.
void write_port_file(const std::string& path, std::uint16_t port) {
    const std::string scratch = fmt::format("{}.{}", path, getpid());
    std::ofstream file(scratch);
    file << port << '\n';
    file.close();
    if (file && std::rename(scratch.c_str(), path.c_str()) == 0) return;
    const int cause = errno;
    std::remove(scratch.c_str());
    throw verbatim::Error(verbatim::Errc::invalid_argument, fmt::format("port file {}", path),
                          fmt::format("cannot be written: {}", std::strerror(cause)),
                          "choose a directory that exists and may be written");
}

void run(const ReceiveOptions& options) {
    const auto context = options.open_context();
    verbatim::Listener listener = context->listen(options.address);
    if (!options.port_file.empty()) write_port_file(options.port_file, listener.port());
    verbatim::Connection connection = listener.accept(options.deadline());
    demo::Transfer transfer;
    std::string found;
    for (unsigned round = 0; round < options.rounds; ++round) {
        const auto start = demo::Clock::now();
        const verbatim::Received<packages::Graph> graph =
            verbatim::receive<packages::Graph>(connection, {.deadline = options.deadline()});
        transfer.rounds.push_back(demo::Clock::now() - start);
        transfer.objects = graph.report().objects;
        transfer.object_bytes = graph.report().object_bytes;
        transfer.back_pointers = graph.report().records;
        if (round + 1 == options.rounds) found = packages::to_text(packages::totals(*graph));
    }
    demo::print(found + transfer.to_text());
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Receives the graph of a Debian package database.", "verbatim-demo-receive");
    ReceiveOptions options;
    options.add_to(app);
    return demo::run(app, argc, argv, [&options] { run(options); });
}

#include "program.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

namespace demo {

namespace {

double per_object(Clock::duration time, std::uint64_t objects) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    return objects == 0 ? 0.0 : static_cast<double>(ns) / static_cast<double>(objects);
}

std::string round_text(const char* name, Clock::duration time, std::uint64_t objects) {
    return fmt::format("transfer.{0}_us={1}\ntransfer.{0}_ns_per_object={2:.1f}\n", name,
                       std::chrono::duration_cast<std::chrono::microseconds>(time).count(),
                       per_object(time, objects));
}

}  // namespace

std::string Transfer::to_text() const {
    std::string text = fmt::format(
        "transfer.rounds={}\ntransfer.objects={}\ntransfer.object_bytes={}\n"
        "transfer.back_pointers={}\n",
        rounds.size(), objects, object_bytes, back_pointers);
    if (wire_bytes > 0) text += fmt::format("transfer.wire_bytes={}\n", wire_bytes);
    if (!rounds.empty()) {
        text += round_text("first", rounds.front(), objects);
        text += round_text("best", *std::min_element(rounds.begin(), rounds.end()), objects);
    }
    return text;
}

void Options::add_to(CLI::App& app) {
    app.add_option("--config", config_file, "configuration file (default: see docs)");
    app.add_option("--port", port, "the software NIC's way to the other side")
        ->check(CLI::IsMember({"auto", "shm", "tcp", "udp"}));
    app.add_option("--capture", capture,
                   "file to which the packets are appended, as pcapng; of shm and tcp made up");
    app.add_option("--timeout", timeout_seconds, "seconds to wait for the other side")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--rounds", rounds, "times to transfer the graph; the same on both sides")
        ->check(CLI::Range(1u, 1'000'000u))
        ->capture_default_str();
}

std::unique_ptr<verbatim::Context> Options::open_context() const {
    using verbatim::Config;
    using verbatim::Context;
    Config config = config_file.empty() ? Config::found() : Config::from_file(config_file);
    if (!port.empty()) config.softnic.port = port;
    if (!capture.empty()) config.softnic.capture = capture;
    return std::make_unique<Context>(config);
}

verbatim::Deadline Options::deadline() const {
    return verbatim::Deadline::after(std::chrono::duration_cast<verbatim::Clock::duration>(
        std::chrono::duration<double>(timeout_seconds)));
}

int run(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
    try {
        app.parse(argc, argv);
        body();
        return 0;
    } catch (const CLI::ParseError& error) {
        return app.exit(error);
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "{}: out of memory; use less --replicate\n", app.get_name());
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    }
    return 1;
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
        return;
    throw verbatim::Error(verbatim::Errc::invalid_argument, "standard output", "cannot be written");
}

}  // namespace demo

// What the two demo programs share: the transfer's figures, and how a program ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <verbatim/core/context.hpp>

namespace demo {

using Clock = std::chrono::steady_clock;

// Figures of one program's side of all rounds. What both sides report under one name must be equal.
struct Transfer {
    std::uint64_t objects = 0;
    std::uint64_t object_bytes = 0;
    std::uint64_t back_pointers = 0;
    std::uint64_t wire_bytes = 0;  // only the sender knows
    std::vector<Clock::duration> rounds;

    // "transfer.objects=...", one line each. The first round finds cold memory, the best one warm.
    std::string to_text() const;
};

struct Options {
    std::string config_file;  // empty: the library's usual places
    std::string port;         // of the software NIC; empty: as configured
    std::string capture;      // file for its packets; empty: as configured
    double timeout_seconds = 60;
    unsigned rounds = 1;  // transfers of the same graph over one connection

    void add_to(CLI::App& app);
    std::unique_ptr<verbatim::Context> open_context() const;
    verbatim::Deadline deadline() const;
};

// Parses the command line and runs `body`. Returns the exit status: 0, or 1 after one line on
// standard error.
int run(CLI::App& app, int argc, char** argv, const std::function<void()>& body);

// Writes `text` to standard output. Throws Error if that fails.
void print(const std::string& text);

}  // namespace demo

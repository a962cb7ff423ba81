// Reads the segments of this user's programs, once or again and again.
#include "stat.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

#include "telemetry_text.hpp"

namespace cli {
namespace {

using namespace verbatim;

// One that cannot be read is told of, and the others are shown.
Processes read_all(const std::string& directory, unsigned long process) {
    Processes found;
    for (const std::string& path :
         telemetry::segments(directory.empty() ? telemetry::default_directory() : directory)) {
        try {
            telemetry::Process one = telemetry::read_segment(path);
            if (process == 0 || one.pid == process) found.push_back(std::move(one));
        } catch (const Error& error) {
            // It has ended since it was listed.
            if (error.code() != Errc::peer_lost) fmt::print(stderr, "verbatim: {}\n", error.what());
        }
    }
    return found;
}

void print(const std::string& text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
    (void)std::fflush(stdout);
}

}  // namespace

void Stat::add_to(CLI::App& app) {
    stat_ = app.add_subcommand("stat", "shows what your running programs count");
    auto* const json = stat_->add_flag("--json", json_, "for programs");
    stat_->add_flag("--prometheus", prometheus_, "Prometheus' text format")->excludes(json);
    top_ = app.add_subcommand("top", "shows it again and again, with rates");
    top_->add_option("--interval", interval_, "seconds between two rounds")
        ->check(CLI::Range(0.01, 3600.0));
    top_->add_option("--rounds", rounds_, "so many rounds; 0: until Ctrl-C");
    for (CLI::App* const command : {stat_, top_}) {
        command->add_option("pid", process_, "of one process alone")->check(CLI::Range(1, 1 << 22));
        command->add_option("--directory", directory_,
                            "where the segments are: directory of [telemetry]");
    }
}

int Stat::print_once() const {
    const Processes all = read_all(directory_, process_);
    const bool is_missing = process_ != 0 && all.empty();
    if (is_missing)
        fmt::print(stderr, "verbatim: process {} is no program of yours with telemetry\n",
                   process_);
    if (is_missing && !json_ && !prometheus_) return 1;
    print(json_ ? to_json(all) : prometheus_ ? to_prometheus(all) : to_table(all));
    return is_missing ? 1 : 0;
}

// A terminal shows each round in the place of the one before.
int Stat::print_again() const {
    using Clock = std::chrono::steady_clock;
    const bool is_terminal = isatty(STDOUT_FILENO) != 0;
    Processes before;
    Clock::time_point last{};
    for (unsigned round = 0; rounds_ == 0 || round < rounds_; ++round) {
        if (round != 0) std::this_thread::sleep_for(std::chrono::duration<double>(interval_));
        Processes now = read_all(directory_, process_);
        const auto read_at = Clock::now();
        const double seconds = std::chrono::duration<double>(read_at - last).count();
        print((is_terminal ? "\x1b[H\x1b[2J" : "") +
              to_table(now, before, round == 0 ? 0 : seconds) + (is_terminal ? "" : "\n"));
        if (std::ferror(stdout) != 0) return 1;
        before = std::move(now);
        last = read_at;
    }
    return 0;
}

int Stat::operator()() const { return top_->parsed() ? print_again() : print_once(); }

}  // namespace cli

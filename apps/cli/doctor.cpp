// The report.
#include "doctor.hpp"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "doctor_checks.hpp"

namespace cli {
namespace {

const char* name_of(State state) {
    switch (state) {
        case State::ok:
            return "ok";
        case State::limited:
            return "limited";
        case State::missing:
            break;
    }
    return "missing";
}

bool works(const std::vector<Finding>& findings, Breaks path) {
    return std::none_of(findings.begin(), findings.end(), [path](const Finding& finding) {
        return finding.state == State::missing && finding.breaks == path;
    });
}

void print(const Finding& finding) {
    fmt::print("{:<8} {:<14} {}\n", name_of(finding.state), finding.name, finding.found);
    if (finding.state == State::ok) return;
    fmt::print("{:<23} why: {}\n", "", finding.why);
    if (!finding.remedy.empty()) fmt::print("{:<23} run: {}\n", "", finding.remedy);
}

toml::table table_of(const Finding& finding) {
    return toml::table{{"name", finding.name},
                       {"state", name_of(finding.state)},
                       {"found", finding.found},
                       {"why", finding.why},
                       {"remedy", finding.remedy},
                       {"default", finding.breaks == Breaks::default_path},
                       {"fast", finding.breaks == Breaks::fast_path}};
}

void print_json(const std::vector<Finding>& findings, bool by_default, bool fast) {
    toml::array all;
    for (const Finding& finding : findings) all.push_back(table_of(finding));
    const toml::table report{
        {"default_works", by_default}, {"fast_works", fast}, {"findings", std::move(all)}};
    std::cout << toml::json_formatter(report) << '\n';
}

}  // namespace

void Doctor::add_to(CLI::App& app) {
    command_ = app.add_subcommand(
        "doctor", "shows what this machine lacks, why it matters, and how to mend it");
    command_->add_flag("--json", json_, "for programs");
    command_->add_option("--root", root_, "where /proc and /sys are looked for")
        ->check(CLI::ExistingDirectory)
        ->capture_default_str();
}

int Doctor::operator()() const {
    std::vector<Finding> findings;
    for (const auto look : {look_at_memory, look_at_kernel, look_at_devices})
        for (Finding& finding : look(root_)) findings.push_back(std::move(finding));
    const bool by_default = works(findings, Breaks::default_path);
    const bool fast = by_default && works(findings, Breaks::fast_path);
    if (json_) {
        print_json(findings, by_default, fast);
    } else {
        for (const Finding& finding : findings) print(finding);
        fmt::print("\nthe software NIC {}; the fast path, an RDMA device, {}\n",
                   by_default ? "works" : "does not work", fast ? "works" : "does not work");
    }
    return by_default ? (fast ? 0 : 1) : 2;
}

}  // namespace cli

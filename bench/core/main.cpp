// Group `core`: what connects two processes of one machine, side by side in one run.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "machine.hpp"
#include "processes.hpp"
#include "report.hpp"
#include "run.hpp"
#include "subject.hpp"

namespace verbatim::bench {
namespace {

struct Options {
    unsigned passes = 5;
    double milliseconds = 300;
    std::string filter, json;
    bool list = false, takes_long = false;
    // As scripts/bench gives them to every group's program.
    std::string google_filter, google_out, google_format;
    double google_seconds = 0;
    bool google_list = false;
};

void define(CLI::App& app, Options& options) {
    app.add_option("--passes", options.passes, "passes; each runs every subject once")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--milliseconds", options.milliseconds, "time of a subject in a pass")
        ->check(CLI::Range(1.0, 1e6))
        ->capture_default_str();
    app.add_option("--filter", options.filter, "only subjects whose case/subject matches REGEX");
    app.add_option("--json", options.json, "also write all figures to FILE");
    app.add_flag("--list", options.list, "print case/subject of each row and stop");
    app.add_flag("--long", options.takes_long, "also the cases with thousands of connections");
    const std::string group = "Google Benchmark's, for scripts/bench";
    app.add_flag("--benchmark_list_tests", options.google_list)->group(group);
    app.add_option("--benchmark_filter", options.google_filter)->group(group);
    app.add_option("--benchmark_min_time", options.google_seconds)->group(group);
    app.add_option("--benchmark_out", options.google_out)->group(group);
    app.add_option("--benchmark_out_format", options.google_format)->group(group);
}

// In the order of the report: by case, then as the subjects were added.
std::vector<Row> choose(const Options& options) {
    Subjects all;
    for (const auto add_some :
         {add_floors, add_verbatim, add_verbatim_tagged, add_ucx, add_libfabric, add_zeromq,
          add_sockets, add_wire, add_many, add_reads, add_foreign, add_polls, add_footprints,
          add_setups, add_idle})
        add_some(all);
    std::ranges::stable_sort(all, {}, [](const Subject& one) { return case_order(*one.of); });
    const std::regex filter(options.filter), google(options.google_filter);
    std::vector<Row> rows;
    for (Subject& one : all)
        if ((options.takes_long || !one.of->is_long) &&
            std::regex_search(one.full_name(), filter) &&
            std::regex_search("core/" + one.full_name(), google))
            rows.push_back({std::move(one), {}});
    if (rows.empty()) throw std::runtime_error("no subject matches; --list shows them all");
    return rows;
}

int list(const std::vector<Row>& rows, std::string_view prefix) {
    for (const Row& row : rows) fmt::print("{}{}\n", prefix, row.subject.full_name());
    return 0;
}

// Cases in random order, and subjects within each: those that are compared run close together.
std::vector<Row*> shuffled(std::vector<Row>& rows, std::mt19937& random) {
    std::vector<std::pair<std::uint32_t, Row*>> keyed;
    std::vector<const Case*> cases;
    for (Row& row : rows) keyed.emplace_back(0, &row), cases.push_back(row.subject.of);
    cases.erase(std::unique(cases.begin(), cases.end()), cases.end());
    std::ranges::shuffle(cases, random);
    std::ranges::shuffle(keyed, random);
    for (auto& [key, row] : keyed)
        key = static_cast<std::uint32_t>(std::ranges::find(cases, row->subject.of) - cases.begin());
    std::ranges::stable_sort(keyed, {}, [](const auto& one) { return one.first; });
    std::vector<Row*> order;
    for (const auto& [key, row] : keyed) order.push_back(row);
    return order;
}

void measure(std::vector<Row>& rows, unsigned passes, double milliseconds) {
    Runner runner(milliseconds * 1000);
    std::mt19937 random(1);  // the same orders in every run
    for (unsigned pass = 1; pass <= passes; ++pass) {
        fmt::print(stderr, "pass {} of {}: {} subjects\n", pass, passes, rows.size());
        for (Row* row : shuffled(rows, random)) row->passes.push_back(runner.run(row->subject));
    }
}

bool any_failed(const std::vector<Row>& rows) {
    return std::ranges::any_of(rows, [](const Row& row) { return !failure(row).empty(); });
}

int run_for_scripts(std::vector<Row>& rows, const Options& options) {
    measure(rows, 1, options.google_seconds > 0 ? options.google_seconds * 1000 : 200);
    const nlohmann::ordered_json results = google_json(rows);
    if (!options.google_out.empty()) write_file(options.google_out, results);
    fmt::print("{}\n", results.dump(2));
    return 0;
}

nlohmann::ordered_json report_json(const std::vector<std::pair<std::string, std::string>>& machine,
                                   const std::vector<Row>& rows) {
    nlohmann::ordered_json all;
    for (const auto& [name, value] : machine) all["machine"][name] = value;
    all["not_measured"] = kNotMeasured;
    all["rows"] = rows_json(rows);
    return all;
}

int run(const Options& options) {
    raise_file_limit();
    std::vector<Row> rows = choose(options);
    if (options.list) return list(rows, "");
    if (options.google_list) return list(rows, "core/");
    if (!options.google_filter.empty()) return run_for_scripts(rows, options);
    const auto machine = describe_machine();
    measure(rows, options.passes, options.milliseconds);
    for (const auto& [name, value] : machine) fmt::print("{:<10}  {}\n", name, value);
    fmt::print("passes      {} of {} ms for each subject, in changing order\n\n{}\n{}{}",
               options.passes, options.milliseconds, table(rows), kLegend, kNotMeasured);
    fmt::print("{}", crossovers(rows));
    if (!options.json.empty()) write_file(options.json, report_json(machine, rows));
    return any_failed(rows) ? 1 : 0;
}

}  // namespace
}  // namespace verbatim::bench

int main(int argc, char** argv) {
    CLI::App app("Messages and writes between two processes, beside what else connects them.");
    verbatim::bench::Options options;
    verbatim::bench::define(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        return verbatim::bench::run(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_core: {}\n", error.what());
        return 2;
    }
}

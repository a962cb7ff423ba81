// bench_graph: transfers of object graphs, beside their floors and peers.
#include <benchmark/benchmark.h>
#include <time.h>

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "subject.hpp"

namespace bench_graph {
namespace {

// The subject that was measured last. One at a time: each holds hundreds of megabytes.
struct Current {
    std::string name;
    std::unique_ptr<Subject> subject;
};

Subject& current_subject(const std::string& name, const MakeSubject& make) {
    static Current current;
    if (current.name == name)
        return *current.subject;  // Google Benchmark is still looking for a count
    current = {};
    std::unique_ptr<Subject> made = make();
    made->transfer();  // faults pages in and warms caches, allocators and connections
    if (!made->verify()) throw std::runtime_error("what arrived is not what was sent");
    made->transfer();  // and once more with memory to give back
    current = {name, std::move(made)};
    return *current.subject;
}

// Of all threads: an engine in a thread of its own would count too.
double process_cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void measure(benchmark::State& state, const std::string& name, const MakeSubject& make) try {
    Subject& subject = current_subject(name, make);
    const double before = process_cpu_ns();
    for ([[maybe_unused]] auto iteration : state) subject.transfer();
    const double cpu_ns = process_cpu_ns() - before;
    if (!subject.verify()) return state.SkipWithError("what arrived is not what was sent");
    const auto transfers = static_cast<double>(state.iterations());
    state.counters["ns_per_object"] = cpu_ns / transfers / static_cast<double>(subject.objects());
    state.counters["bytes_per_s"] = transfers * static_cast<double>(subject.bytes()) / cpu_ns * 1e9;
} catch (const std::exception& error) {
    state.SkipWithError(error.what());
}

}  // namespace

void add_subject(const std::string& case_name, const std::string& subject_name, MakeSubject make) {
    const std::string name = "graph/" + case_name + "/" + subject_name;
    benchmark::RegisterBenchmark(
        name.c_str(),
        [name, make = std::move(make)](benchmark::State& state) { measure(state, name, make); })
        ->MeasureProcessCPUTime()
        ->Unit(benchmark::kMillisecond);
}

}  // namespace bench_graph

int main(int argc, char** argv) {
    // A warm heap stays warm: what a subject frees is not given back to the system, so that
    // nobody's next transfer pays for touching it again.
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    mallopt(M_MMAP_MAX, 0);
    // A transfer takes 10 to 500 ms; the usual 0.5 s for each subject would make a pass needlessly
    // long.
    std::vector<char*> arguments(argv, argv + argc);
    std::string min_time = "--benchmark_min_time=0.2";
    const bool given = std::any_of(
        arguments.begin(), arguments.end(),
        [](std::string_view argument) { return argument.starts_with("--benchmark_min_time"); });
    if (!given) arguments.push_back(min_time.data());
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
    bench_graph::add_packages_verbatim();
    bench_graph::add_packages_floors();
    bench_graph::add_packages_protobuf();
    bench_graph::add_packages_cereal();
    bench_graph::add_points_verbatim();
    bench_graph::add_points_floors();
    bench_graph::add_points_protobuf();
    bench_graph::add_points_cereal();
    bench_graph::add_lists();
    bench_graph::add_meshes();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}

// bench_graph: transfers of object graphs, beside their floors and peers.
#include <benchmark/benchmark.h>
#include <time.h>

#include <malloc.h>

#include <algorithm>
#include <chrono>
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

double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);  // of all threads
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double cpu_ns(const Subject& subject) { return cpu_ns() + subject.other_process_ns(); }

void report(benchmark::State& state, Subject& subject, double all_ns) {
    if (!subject.verify()) return state.SkipWithError("what arrived is not what was sent");
    const auto transfers = static_cast<double>(state.iterations());
    state.counters["ns_per_object"] = all_ns / transfers / static_cast<double>(subject.objects());
    if (subject.bytes() != 0)
        state.counters["bytes_per_s"] =
            transfers * static_cast<double>(subject.bytes()) / all_ns * 1e9;
    if (subject.list_length() != 0)
        state.counters["list_length"] = static_cast<double>(subject.list_length());
}

void measure_warm(benchmark::State& state, Subject& subject) {
    const double before = cpu_ns(subject);
    for ([[maybe_unused]] auto iteration : state) subject.transfer();
    report(state, subject, cpu_ns(subject) - before);
}

// First transfers; making the subject and its memory is not measured.
void measure_cold(benchmark::State& state, const MakeSubject& make) {
    double all_ns = 0;
    std::unique_ptr<Subject> subject;
    for ([[maybe_unused]] auto iteration : state) {
        state.PauseTiming();
        subject.reset();
        subject = make();
        state.ResumeTiming();
        const double before = cpu_ns(*subject);
        subject->transfer();
        all_ns += cpu_ns(*subject) - before;
    }
    report(state, *subject, all_ns);
}

void measure_elapsed(benchmark::State& state, Subject& subject, const char* metric, double ways) {
    const auto before = std::chrono::steady_clock::now();
    for ([[maybe_unused]] auto iteration : state) subject.transfer();
    const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - before;
    if (!subject.verify()) return state.SkipWithError("what arrived is not what was sent");
    state.counters[metric] = all.count() / ways / static_cast<double>(state.iterations());
}

void measure_sides(benchmark::State& state, Subject& subject) {
    const double before = cpu_ns(subject), receiver_before = subject.receiver_ns();
    for ([[maybe_unused]] auto iteration : state) subject.transfer();
    const double receiver = subject.receiver_ns() - receiver_before;
    const double sender = cpu_ns(subject) - before - receiver;
    if (!subject.verify()) return state.SkipWithError("what arrived is not what was sent");
    const auto objects = static_cast<double>(subject.objects());
    const double all = objects * static_cast<double>(state.iterations());
    state.counters["ns_sender"] = sender / all;
    state.counters["ns_receiver"] = receiver / all;
    state.counters["wire_bytes"] = static_cast<double>(subject.bytes()) / objects;
}

void run(benchmark::State& state, const std::string& name, const MakeSubject& make,
         Measure measure) try {
    if (measure == Measure::cold) return measure_cold(state, make);
    Subject& subject = current_subject(name, make);
    if (measure == Measure::warm)
        measure_warm(state, subject);
    else if (measure == Measure::sides)
        measure_sides(state, subject);
    else if (measure == Measure::elapsed)
        measure_elapsed(state, subject, "us", 1);
    else
        measure_elapsed(state, subject, "us_one_way", 2);
} catch (const std::exception& error) {
    state.SkipWithError(error.what());
}

}  // namespace

void add_subject(const std::string& case_name, const std::string& subject_name, MakeSubject make,
                 Measure measure) {
    const std::string name = "graph/" + case_name + "/" + subject_name;
    auto* added = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
                      run(state, name, make, measure);
                  })->Unit(benchmark::kMillisecond);
    if (measure == Measure::one_way || measure == Measure::elapsed)
        added->UseRealTime();
    else
        added->MeasureProcessCPUTime();
}

}  // namespace bench_graph

int main(int argc, char** argv) {
    // A warm heap stays warm: what a subject frees is not given back to the system, so that
    // nobody's next transfer pays for touching it again.
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    mallopt(M_MMAP_MAX, 0);
    // One heap for all threads: the visited table of a floor spans all addresses of its objects.
    mallopt(M_ARENA_MAX, 1);
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
    bench_graph::add_graph_transfers();
    bench_graph::add_composed_transfers();
    bench_graph::add_composed_floors();
    bench_graph::add_local_messages();
    bench_graph::add_map_transfers();
    bench_graph::add_streams();
    bench_graph::add_traversals();
    bench_graph::add_polymorphic_transfers();
    bench_graph::add_latencies();
    bench_graph::add_lives();
    bench_graph::add_send_rates();
    bench_graph::add_general_floors();
    bench_graph::add_special_floors();
    bench_graph::add_mesh_floors();
    bench_graph::add_package_floors();
    bench_graph::add_map_floors();
    bench_graph::add_protobuf();
    bench_graph::add_protobuf_packages();
    bench_graph::add_cereal();
    bench_graph::add_cereal_packages();
    bench_graph::add_flatbuffers();
    bench_graph::add_flatbuffers_packages();
    bench_graph::add_capnproto();
    bench_graph::add_capnproto_packages();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}

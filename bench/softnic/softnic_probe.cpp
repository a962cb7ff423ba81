// The part of group `softnic` that is measured in this program: limits of the machine, and what the
// software NIC does beneath libibverbs in one process.
#include <time.h>

#include <exception>
#include <string>

#include "../ring/subjects.hpp"
#include "probes.hpp"
#include "small_operation.hpp"

namespace verbatim::bench {
namespace {

using Probe = void (*)(benchmark::State&);

benchmark::internal::Benchmark* add(const char* name, Probe probe) {
    return benchmark::RegisterBenchmark(name, [probe](benchmark::State& state) {
        try {
            probe(state);
        } catch (const std::exception& error) {
            state.SkipWithError(error.what());
        }
    });
}

double nanoseconds_of_all_threads() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void small_operation(const NamedOperation& of, benchmark::State& state) try {
    const auto operation = of.make();
    for (int i = 0; i < 1000; ++i) operation->run_batch();
    const double before = nanoseconds_of_all_threads();
    for (auto _ : state) operation->run_batch();
    state.counters["ns"] = (nanoseconds_of_all_threads() - before) /
                           (static_cast<double>(state.iterations()) * SmallOperation::kBatch);
} catch (const std::exception& error) {
    state.SkipWithError(error.what());
}

void add_all() {
    for (const char* const name :
         {"softnic/send_8/floor", "softnic/write_8/floor", "softnic/tag_8/floor"})
        add(name, cache_line);
    add("softnic/read_8/floor", attach_read_8);
    add("softnic/write_64k/floor", copy_64k);
    add("softnic/write_64k/attach", attach_write_64k);
    add("softnic/queue_pairs_1000/verbatim.open", open_1000)->Iterations(1);
    add("softnic/asleep/verbatim.channel", sleep_on_channel)->Iterations(1);
    add("softnic/asleep/verbatim.channel_nap", sleep_on_channel_napping)->Iterations(1);
    for (const NamedOperation& one : kSmallOperations) {
        const std::string name =
            "softnic/" + std::string(one.name) + "/" + std::string(one.subject);
        benchmark::RegisterBenchmark(
            name.c_str(), [&one](benchmark::State& state) { small_operation(one, state); });
    }
}

}  // namespace
}  // namespace verbatim::bench

int main(int argc, char** argv) {
    verbatim::bench::add_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

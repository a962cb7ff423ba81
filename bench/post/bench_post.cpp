// Group `post`: nanoseconds of one post with the device parked, or (cases `_engine`) with the
// software NIC's engine inline.
#include <benchmark/benchmark.h>

#include <string>

#include "machine.hpp"
#include "subjects.hpp"

int main(int argc, char** argv) {
    using namespace verbatim::bench;
    if (!runs_here()) return 0;  // offers nothing
    for (const NamedSubject& subject : subjects()) {
        const std::string name = "post/" + case_name(*subject.of) + "/" + std::string(subject.name);
        benchmark::RegisterBenchmark(name.c_str(), [subject](benchmark::State& state) {
            // Whole lists of 10 and of 32.
            const std::uint64_t operations = is_poll(*subject.of) ? kMaxPolled : 160 * kBatch;
            const auto posts = subject.make(*subject.of);
            for (int i = 0; i < 2; ++i) {  // touches every page
                posts->prepare();
                posts->run(operations);
            }
            for (auto _ : state) {
                if (is_poll(*subject.of)) {
                    state.PauseTiming();
                    posts->prepare();
                    state.ResumeTiming();
                }
                posts->run(operations);
            }
            // Elapsed seconds / (operations * 1e-9): nanoseconds of one.
            state.counters["ns"] = benchmark::Counter(
                static_cast<double>(state.iterations()) * static_cast<double>(operations) * 1e-9,
                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
        });
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

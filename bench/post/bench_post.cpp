// Group `post`: nanoseconds of one post with the device parked.
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
            constexpr std::uint64_t kPosts = 160 * kBatch;  // whole lists of 10 and of 32
            const auto posts = subject.make(*subject.of);
            posts->run(kPosts);  // touches every page
            for (auto _ : state) posts->run(kPosts);
            // Elapsed seconds / (posts * 1e-9): nanoseconds of one post.
            state.counters["ns"] =
                benchmark::Counter(static_cast<double>(state.iterations()) * kPosts * 1e-9,
                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
        });
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

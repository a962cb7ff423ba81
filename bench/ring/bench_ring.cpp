// Group `ring`: two processes on cores 0 and 1.
#include <benchmark/benchmark.h>

#include <exception>

#include "subjects.hpp"

namespace {

using Subject = void (*)(benchmark::State&);

void add(const char* name, Subject subject) {
    benchmark::RegisterBenchmark(name, [subject](benchmark::State& state) {
        try {
            subject(state);
        } catch (const std::exception& error) {
            state.SkipWithError(error.what());
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    using namespace verbatim::bench;
    add("ring/message_8/verbatim.ring", message_8);
    add("ring/message_8/floor", cache_line);
    add("ring/write_8/verbatim.write", write_8);
    add("ring/write_8/floor", cache_line);
    add("ring/stream_8/verbatim.ring", stream_8);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

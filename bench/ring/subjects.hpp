// What group `ring` measures. Each forks its second process itself.
#pragma once

#include <benchmark/benchmark.h>

namespace verbatim::bench {

// Counter us_one_way: median of round trip / 2.
void cache_line(benchmark::State& state);
void message_8(benchmark::State& state);
void write_8(benchmark::State& state);
// Counter msgs_per_s: until the receiver has said that it has them all.
void stream_8(benchmark::State& state);

}  // namespace verbatim::bench

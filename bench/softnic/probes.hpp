// What the program `softnic_probe` measures by itself; perftest and UCX measure the rest.
#pragma once

#include <benchmark/benchmark.h>

namespace verbatim::bench {

// Counter bytes_per_s: 64 KiB at a time from private memory into memory that another process has
// mapped too (copy), or that only the other process has (cross-memory attach).
void copy_64k(benchmark::State& state);
void attach_write_64k(benchmark::State& state);
// Counter us: 8 bytes of another process's private memory.
void attach_read_8(benchmark::State& state);
// Counter seconds: 1,000 reliable queue pairs made, connected, and each with one write done.
void open_1000(benchmark::State& state);
// Counter cpu_percent of one core: all threads of a program that waits for an event; and where
// doorbells may not be trapped.
void sleep_on_channel(benchmark::State& state);
void sleep_on_channel_napping(benchmark::State& state);

}  // namespace verbatim::bench

// The limits that the machine sets: copies between two processes by hand.
#include <sys/mman.h>
#include <sys/uio.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "../ring/peers.hpp"
#include "probes.hpp"

namespace verbatim::bench {
namespace {

constexpr std::size_t kBytes = 65536;

// Waits asleep, as the target of one-sided requests may.
void stand_by(SharedPage& page) {
    page.pong.wait(0);  // for ever; its maker kills it
}

struct Target {
    explicit Target(int sharing)
        : memory(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      sharing | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
        if (memory == MAP_FAILED) throw std::bad_alloc();
    }
    ~Target() { munmap(memory, kBytes); }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    void* memory;
};

void count_bytes(benchmark::State& state) {
    state.counters["bytes_per_s"] = benchmark::Counter(
        static_cast<double>(state.iterations()) * kBytes, benchmark::Counter::kIsRate);
}

}  // namespace

void copy_64k(benchmark::State& state) {
    const Target target(MAP_SHARED);
    SecondProcess second(stand_by);
    std::vector<std::byte> source(kBytes, std::byte{7});
    for (auto _ : state) {
        std::memcpy(target.memory, source.data(), kBytes);
        benchmark::ClobberMemory();
    }
    count_bytes(state);
}

void attach_write_64k(benchmark::State& state) {
    const Target target(MAP_PRIVATE);
    SecondProcess second(stand_by);
    std::vector<std::byte> source(kBytes, std::byte{7});
    const iovec from{source.data(), kBytes}, to{target.memory, kBytes};
    for (auto _ : state)
        if (process_vm_writev(second.process(), &from, 1, &to, 1, 0) != ssize_t{kBytes})
            throw std::runtime_error("process_vm_writev is refused");
    count_bytes(state);
}

void attach_read_8(benchmark::State& state) {
    const Target target(MAP_PRIVATE);
    SecondProcess second(stand_by);
    std::uint64_t word = 0;
    const iovec to{&word, sizeof word}, from{target.memory, sizeof word};
    for (auto _ : state)
        if (process_vm_readv(second.process(), &to, 1, &from, 1, 0) != ssize_t{sizeof word})
            throw std::runtime_error("process_vm_readv is refused");
    // Elapsed seconds / (times * 1e-6): microseconds of one.
    state.counters["us"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * 1e-6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

}  // namespace verbatim::bench

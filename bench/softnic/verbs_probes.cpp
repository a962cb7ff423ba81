// What no tool measures: many queue pairs, and a program that sleeps.
#include <poll.h>
#include <time.h>

#include <chrono>
#include <cstdlib>

#include "probes.hpp"
#include "verbs_side.hpp"

namespace verbatim::bench {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kPairs = 1000;
// Where the engine's thread naps, its naps are longer when nothing has happened for a second.
constexpr auto kQuiet = 1500ms, kAsleep = 3000ms;

double seconds_of_all_threads() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Blocks as the program would, for as long as nothing comes.
void await_event(ibv_comp_channel* channel, std::chrono::milliseconds time) {
    pollfd event{channel->fd, POLLIN, 0};
    if (poll(&event, 1, static_cast<int>(time.count())) != 0)
        throw std::runtime_error("an event came for nothing");
}

}  // namespace

void open_1000(benchmark::State& state) {
    for (auto _ : state) {
        const auto began = Steady::now();
        Memory memory(2 * kPairs);
        std::vector<interop::Pair> pairs;
        for (std::uint32_t i = 0; i < kPairs; ++i)
            pairs.push_back(make_pair(memory.domain.get(), memory.completions.get(), 16));
        for (std::uint32_t i = 0; i < kPairs; ++i) connect(pairs[i].get(), pairs[i ^ 1]->qp_num);
        for (const interop::Pair& pair : pairs) memory.post(pair.get(), IBV_WR_RDMA_WRITE);
        memory.await(kPairs);
        const std::chrono::duration<double> took = Steady::now() - began;
        state.counters["seconds"] = took.count();
    }
}

void sleep_on_channel(benchmark::State& state) {
    const interop::Context context = open_executed_device();
    const std::unique_ptr<ibv_comp_channel, interop::Releasing<ibv_destroy_comp_channel>> channel(
        interop::made(ibv_create_comp_channel(context.get()), "ibv_create_comp_channel"));
    Memory memory(64, channel.get(), context.get());
    const interop::Pair one = make_pair(memory.domain.get(), memory.completions.get(), 16);
    const interop::Pair other = make_pair(memory.domain.get(), memory.completions.get(), 16);
    connect(one.get(), other->qp_num);
    connect(other.get(), one->qp_num);
    for (auto _ : state) {
        memory.receive(other.get());
        memory.post(one.get(), IBV_WR_SEND);
        memory.await(2);
        memory.receive(other.get());
        must(ibv_req_notify_cq(memory.completions.get(), 0), "ibv_req_notify_cq");
        await_event(channel.get(), kQuiet);
        const double before = seconds_of_all_threads();
        const auto began = Steady::now();
        await_event(channel.get(), kAsleep);
        const std::chrono::duration<double> took = Steady::now() - began;
        state.counters["cpu_percent"] = 100 * (seconds_of_all_threads() - before) / took.count();
    }
}

void sleep_on_channel_napping(benchmark::State& state) {
    constexpr const char* kVariable = "VERBATIM_SOFTNIC_DOORBELLS";
    setenv(kVariable, "nap", 1);
    sleep_on_channel(state);
    unsetenv(kVariable);
}

}  // namespace verbatim::bench

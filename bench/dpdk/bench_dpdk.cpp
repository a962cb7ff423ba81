// Benchmarks of the dpdk port over memif: one-way times and rates of 8-byte messages.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <verbatim/core/context.hpp>

#include "raw_frames.hpp"

namespace verbatim::bench {
namespace {

constexpr int kPerStep = 64;  // messages

Config dpdk_config(const DpdkSide& side) {
    Config config;
    config.device.kind = "softnic";
    config.softnic.port = "dpdk:" + side.device;
    return config;
}

// The connection of this side.
Connection meet_over_memif(Context& context, DpdkSide& side) {
    if (side.first) {
        Listener listener = context.listen("127.0.0.1:0");
        side.page.port.store(listener.port());
        return listener.accept(Deadline::after(std::chrono::seconds(20)));
    }
    while (side.page.port.load() == 0) std::this_thread::yield();
    return context.connect("127.0.0.1:" + std::to_string(side.page.port.load()));
}

bool send_one(Connection& connection, std::span<const std::byte> bytes, const DpdkPage& page) {
    while (!page.stop.load(std::memory_order_relaxed)) {
        const Errc error = connection.try_send(0, bytes);
        if (error == Errc::ok) return true;
        if (error != Errc::would_block) connection.check();
        static_cast<void>(connection.progress());
    }
    return false;
}

bool take_one(Connection& connection, const DpdkPage& page) {
    while (!page.stop.load(std::memory_order_relaxed)) {
        Message message;
        if (connection.try_receive(message) == Errc::ok) return true;
        static_cast<void>(connection.progress());
    }
    return false;
}

void ping_pong_messages(DpdkSide& side) {
    Context context(dpdk_config(side));
    Connection connection = meet_over_memif(context, side);
    const std::array<std::byte, 8> bytes{};
    if (!side.first) {
        while (take_one(connection, side.page) && send_one(connection, bytes, side.page)) {
        }
        return;
    }
    const auto round = [&] {
        return send_one(connection, bytes, side.page) && take_one(connection, side.page);
    };
    for (int i = 0; i < 1000; ++i) round();
    Steps steps;
    do round();
    while (steps.add());
    side.page.result = steps.median() / 2;
    side.page.stop.store(true);
}

// As many messages as go one way, alone or several in one write.
void pour_messages(DpdkSide& side, bool coalesced) {
    Context context(dpdk_config(side));
    Connection connection = meet_over_memif(context, side);
    const std::array<std::byte, 8> bytes{};
    if (!side.first) {
        while (!side.page.stop.load(std::memory_order_relaxed)) {
            const Errc error =
                coalesced ? connection.try_batch(0, bytes) : connection.try_send(0, bytes);
            if (error == Errc::would_block) static_cast<void>(connection.progress());
        }
        return;
    }
    for (int i = 0; i < 10000; ++i) take_one(connection, side.page);
    Steps steps;
    do
        for (int i = 0; i < kPerStep; ++i) take_one(connection, side.page);
    while (steps.add());
    side.page.result = kPerStep * 1e6 / steps.median();
    side.page.stop.store(true);
}

void measure(benchmark::State& state, const char* metric,
             const std::function<void(DpdkSide&)>& work) {
    for (auto _ : state) try {
            state.counters[metric] = run_in_two_processes(work);
        } catch (const std::exception& error) {
            state.SkipWithError(error.what());
            return;
        }
}

void add(const char* name, const char* metric, const std::function<void(DpdkSide&)>& work) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) {
        measure(state, metric, work);
    })->Iterations(1);
}

}  // namespace
}  // namespace verbatim::bench

int main(int count, char** arguments) {
    using namespace verbatim::bench;
    setenv("VERBATIM_DPDK_LIBRARY", VERBATIM_DPDK_BUILT, 0);
    setenv("VERBATIM_LOG", "error", 0);
    add("dpdk/message_8/floor", "us_one_way", ping_pong_frames);
    add("dpdk/message_8/verbatim.dpdk", "us_one_way", ping_pong_messages);
    add("dpdk/rate_8/verbatim.dpdk", "msgs_per_s",
        [](DpdkSide& side) { pour_messages(side, false); });
    add("dpdk/rate_8/verbatim.dpdk_coalesced", "msgs_per_s",
        [](DpdkSide& side) { pour_messages(side, true); });
    benchmark::Initialize(&count, arguments);
    benchmark::RunSpecifiedBenchmarks();
}

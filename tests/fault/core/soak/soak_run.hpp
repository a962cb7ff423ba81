// Runs of the soak test between two threads, their settings, and the watch over them.
//
// VERBATIM_LONG=1: a million operations of each side in each run, which are ten million for a
// program. VERBATIM_SEED=n: another seed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "pair/connected_pair.hpp"
#include "sanitized.hpp"
#include "soak_side.hpp"
#include "stall.hpp"

namespace verbatim::test::soak {

inline Plan plan_of(std::uint64_t seed, double share = 1) {
    const char* const other = std::getenv("VERBATIM_SEED");
    Plan plan;
    plan.seed = other != nullptr ? std::strtoull(other, nullptr, 10) : seed;
    const bool is_long = std::getenv("VERBATIM_LONG") != nullptr;
    // By sockets each takes several times as long.
    const bool by_sockets = std::getenv("VERBATIM_TEST_PORT") != nullptr;
    const double most = is_long ? 1e6 : kSanitized ? 700 : by_sockets ? 2500 : 5000;
    plan.operations = static_cast<std::uint64_t>(most * share);
    return plan;
}

// Small rings and queues, so that both are full often, and few hot connections, so that most are
// armed. The seed chooses how each side waits.
inline Config config_of(const Plan& plan, int side) {
    Config config = small_config();
    config.ring.bytes = std::size_t{4096} << (plan.seed + static_cast<unsigned>(side)) % 3;
    config.ring.send_blocks = 16u << plan.seed % 3;
    config.lane.hot = 2;
    config.lane.mode = static_cast<LaneMode>((plan.seed / 2 + static_cast<unsigned>(side)) % 3);
    config.connect.timeout = std::chrono::seconds(60);
    return config;
}

// Ends the program when nothing has happened for a long time, and says where it stood.
class Watchdog {
  public:
    explicit Watchdog(const Ledger& ledger, std::uint64_t seed)
        : thread_([this, &ledger, seed] { run(ledger, seed); }) {}
    ~Watchdog() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

  private:
    void run(const Ledger& ledger, std::uint64_t seed) {
        Stall stalls[2];
        std::unique_lock lock(mutex_);
        while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return over_; })) {
            // A side that has ended waits for nobody.
            const bool hangs =
                stalls[0].is_over(ledger.progress[0]) && stalls[1].is_over(ledger.progress[1]);
            if (!hangs) continue;
            std::fprintf(stderr, "no progress with seed %llu:\n%s",
                         static_cast<unsigned long long>(seed), to_text(ledger).c_str());
            std::abort();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_;
};

// How much happened.
inline std::string summary(const Ledger& ledger) {
    std::uint64_t sums[2][3] = {};
    for (std::uint32_t id = 0; id < ledger.connections; ++id)
        for (int side = 0; side < 2; ++side)
            for (int i = 0; i < 3; ++i) sums[side][i] += ledger.entries[id].received[side][i];
    std::string text = std::to_string(ledger.connections) + " connections, received";
    for (const auto& side : sums)
        for (const std::uint64_t sum : side) text += " " + std::to_string(sum);
    return text + ", " + std::to_string(ledger.remote) + " reads and additions, " +
           std::to_string(ledger.moves) + " moves\n";
}

inline void run_threads(const Plan& plan, const Config& listening, const Config& calling) {
    const SharedLedger ledger;
    const Watchdog watchdog(*ledger, plan.seed);
    const auto run = [&](std::uint8_t side, const Config& config) {
        Side(plan, *ledger, side, config).run();
    };
    std::thread other([&] { run(1, calling); });
    run(0, listening);
    other.join();
    if (!kSanitized) {
        EXPECT_GT(ledger->remote, 0u) << plan.seed;
        EXPECT_GT(ledger->moves, 0u) << plan.seed;
    }
    if (std::getenv("VERBATIM_SEED") != nullptr) std::fputs(summary(*ledger).c_str(), stderr);
}

}  // namespace verbatim::test::soak

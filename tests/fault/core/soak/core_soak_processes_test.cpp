// The soak between two processes, which live until the end or are killed. The thread sanitizer can
// not see how a ring passes from one to the other and back.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <memory>

#include "soak_run.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace test::soak;
using softnic::test::Child;

// A side in a process of its own, which is forked before this one has threads.
std::unique_ptr<Child> forked(const Plan& plan, Ledger& ledger, std::uint8_t side,
                              const Config& config) {
    return std::make_unique<Child>([&](auto&) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is stopped leaves nobody behind
        const Watchdog watchdog(ledger, plan.seed);
        return Side(plan, ledger, side, config).run() ? 0 : 1;
    });
}

void run_processes(const Plan& plan, const Config& listening, const Config& calling) {
    const SharedLedger ledger;
    const auto one = forked(plan, *ledger, 0, listening), other = forked(plan, *ledger, 1, calling);
    EXPECT_EQ(one->reap(), 0);
    EXPECT_EQ(other->reap(), 0);
}

TEST(SoakProcesses, do_all_that_the_model_says) {
    for (std::uint64_t seed = 11; seed <= 12; ++seed) {
        const Plan plan = plan_of(seed);
        run_processes(plan, config_of(plan, 0), config_of(plan, 1));
        if (HasFailure()) break;
    }
}

// Either process dies at any point, and another takes its place.
TEST(SoakProcesses, that_are_killed_harm_nobody_else) {
    Plan plan = plan_of(41);
    plan.may_lose = true;
    plan.agrees = false;
    const int kills = std::getenv("VERBATIM_LONG") != nullptr ? 500 : 6;
    const SharedLedger ledger;
    const Config configs[] = {config_of(plan, 0), config_of(plan, 1)};
    plan.operations = ~std::uint64_t{0};
    std::unique_ptr<Child> sides[2];
    for (std::uint8_t side = 0; side < 2; ++side)
        sides[side] = forked(plan, *ledger, side, configs[side]);
    Random random(plan.seed);
    for (int i = 0; i < kills && !ledger->stop; ++i) {
        // Somewhere in the middle of what they do.
        const std::uint64_t until = ledger->messages + 200 + random() % 2000;
        test::Stall stall;
        while (ledger->messages < until && !ledger->stop) {
            ASSERT_FALSE(stall.is_over(ledger->messages)) << to_text(*ledger);
            usleep(200);
        }
        const auto side = static_cast<std::uint8_t>(random() % 2);
        sides[side]->kill(SIGKILL);
        EXPECT_EQ(sides[side]->reap(), -SIGKILL);
        if (side == 0) ledger->port = 0;
        plan.seed += 1;
        sides[side] = forked(plan, *ledger, side, configs[side]);
    }
    ledger->stop = true;
    for (auto& side : sides) EXPECT_EQ(side->reap(), 0);
}

}  // namespace
}  // namespace verbatim

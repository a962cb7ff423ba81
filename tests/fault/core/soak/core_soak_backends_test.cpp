// The soak on the data paths of RDMA devices: libmlx5's queues written by our driver, and libmlx5's
// own functions. The software NIC behind unmodified rdma-core executes them.
#include <gtest/gtest.h>

#include <verbatim/uverbs/uverbs.hpp>

#include "soak_run.hpp"

namespace verbatim {
namespace {

using namespace test::soak;

class SoakBackends : public testing::TestWithParam<const char*> {
  protected:
    static Config on_device(Config config) {
        config.device.kind = "rdma";
        config.device.data_path = GetParam();
        // A device has one completion queue of fixed length for each lane.
        config.lane.completions = 4096;
        return config;
    }
    // `faults`: the policy of both sides' devices.
    static void run(const Plan& plan, const char* faults) {
        ASSERT_NE(uverbs::sysfs_root(), nullptr);
        setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
        if (*faults != '\0') setenv("VERBATIM_SOFTNIC_FAULTS", faults, 1);
        run_threads(plan, on_device(config_of(plan, 0)), on_device(config_of(plan, 1)));
        unsetenv("VERBATIM_SOFTNIC_FAULTS");
    }
};

TEST_P(SoakBackends, does_all_that_the_model_says) { run(plan_of(71), ""); }

// Requests that are late, or sent again. Devices wait longer for an answer than the library does.
TEST_P(SoakBackends, with_a_fabric_that_is_slow_and_loses_packets) {
    run(plan_of(72, 0.5),
        "delay rate=0.01 seed=5 delay_us=300; drop rate=0.001 seed=6; duplicate rate=0.02 seed=7");
}

// Queue pairs that fail: what comes is a prefix, and the next connection knows nothing of it.
TEST_P(SoakBackends, with_connections_that_fail) {
    Plan plan = plan_of(73);
    plan.may_lose = true;
    run(plan, "fail rate=0.0005 seed=5; disconnect rate=0.0005 seed=6");
}

INSTANTIATE_TEST_SUITE_P(DataPaths, SoakBackends, testing::Values("mlx5", "verbs"),
                         [](const auto& which) { return std::string(which.param); });

}  // namespace
}  // namespace verbatim

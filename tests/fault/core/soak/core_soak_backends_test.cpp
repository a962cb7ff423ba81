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
};

TEST_P(SoakBackends, does_all_that_the_model_says) {
    ASSERT_NE(uverbs::sysfs_root(), nullptr);
    setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
    const Plan plan = plan_of(71);
    run_threads(plan, on_device(config_of(plan, 0)), on_device(config_of(plan, 1)));
}

INSTANTIATE_TEST_SUITE_P(DataPaths, SoakBackends, testing::Values("mlx5", "verbs"),
                         [](const auto& which) { return std::string(which.param); });

}  // namespace
}  // namespace verbatim

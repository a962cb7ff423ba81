// A real device, named by VERBATIM_TEST_DEVICE: by mlx5 queues where it has them, and through
// verbs. Nothing in this program stands between rdma-core and the kernel.
#include <cstdlib>

#include <verbatim/rdma/rdma.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

const char* device_name() {
    const char* const name = std::getenv("VERBATIM_TEST_DEVICE");
    return name != nullptr && *name != '\0' ? name : nullptr;
}

// Not at hand is how it usually is; said once instead of by each test.
TEST(RealDevice, named_by_VERBATIM_TEST_DEVICE) {
    if (device_name() == nullptr)
        GTEST_SKIP() << "VERBATIM_TEST_DEVICE names no RDMA device (as `ibv_devices` lists them): "
                        "the driver's behaviour was not tested on hardware";
    EXPECT_EQ(rdma::open_device({.name = device_name()})->info().name, device_name());
}

}  // namespace

std::vector<Backend> backends() {
    if (device_name() == nullptr) return {};
    const auto open = [](rdma::DataPath path) {
        return [path] { return rdma::open_device({.name = device_name(), .data_path = path}); };
    };
    std::vector<Backend> found{{"verbs", open(rdma::DataPath::verbs)}};
    try {
        static_cast<void>(open(rdma::DataPath::mlx5)());
        found.push_back({"mlx5", open(rdma::DataPath::mlx5)});
    } catch (const Error& error) {
        if (error.code() != Errc::no_device) throw;
    }
    return found;
}

}  // namespace verbatim::test

// Programs that use libmlx5's own interface: its way to open a device, and queues that they write
// and read by themselves.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "raw_queues.hpp"

namespace {

using namespace verbatim;
using interop::Context;

Context open_direct(std::uint32_t flags) {
    EXPECT_NE(uverbs::sysfs_root(), nullptr);
    ibv_device** const list = interop::good(ibv_get_device_list(nullptr), "ibv_get_device_list");
    mlx5dv_context_attr wanted{};
    wanted.flags = flags;
    Context context(mlx5dv_open_device(list[0], &wanted));
    ibv_free_device_list(list);
    return context;
}

std::string library_of(const void* function) {
    Dl_info found{};
    return dladdr(function, &found) != 0 ? found.dli_fname : "";
}

TEST(UverbsDirect, DevicesOpenedByLibmlx5ExecuteInTheProgramsThreads) {
    const Context context = open_direct(0);
    ASSERT_NE(context, nullptr) << std::strerror(errno);
    EXPECT_NE(library_of(reinterpret_cast<void*>(context->ops.poll_cq)).find("verbatim"),
              std::string::npos);
}

// UCX then goes on without.
TEST(UverbsDirect, FirmwareCommandsAreRefused) {
    EXPECT_EQ(open_direct(MLX5DV_CONTEXT_FLAGS_DEVX), nullptr);
    EXPECT_EQ(errno, EPERM);
}

TEST(UverbsDirect, RequestsWrittenPastLibibverbsAreExecuted) {
    const Context context = interop::open_device();
    interop::RawQueues queues(context.get());
    // More than the ring has.
    for (std::uint64_t value = 1; value <= 100; ++value) {
        queues.post_write(&queues.side.word(0), value);
        ASSERT_EQ(queues.await(), MLX5_CQE_REQ) << value;
        EXPECT_EQ(std::atomic_ref(queues.side.word(0)).load(), value);
    }
}

}  // namespace

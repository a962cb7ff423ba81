// Programs that use libmlx5's own interface: its way to open a device, and queues that they write
// and read by themselves, past every function that the software NIC could be called by.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <verbatim/mlx5/formats.hpp>

#include "verbs_pair.hpp"

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

// A queue pair connected to itself, as a program sees it that needs libmlx5 for its queues only.
class RawQueues {
  public:
    explicit RawQueues(ibv_context* context) : side(context) {
        interop::connect(side.pair.get(), side.pair->qp_num);
        mlx5dv_obj objects{};
        objects.qp = {side.pair.get(), &queue_pair};
        objects.cq = {side.completions.get(), &completions};
        interop::good(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
    }
    // A signaled write of eight inline bytes.
    void post_write(const void* to, std::uint64_t value) {
        auto* const block = static_cast<std::byte*>(queue_pair.sq.buf) +
                            std::size_t{posted % queue_pair.sq.wqe_cnt} * queue_pair.sq.stride;
        mlx5_wqe_ctrl_seg control{};
        mlx5dv_set_ctrl_seg(&control, posted, MLX5_OPCODE_RDMA_WRITE, 0, side.pair->qp_num,
                            MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, 0);
        const mlx5::RemoteAddressSegment target{
            mlx5::be64(reinterpret_cast<std::uint64_t>(to)), mlx5::be32(side.region->rkey), {}};
        const mlx5::be32 header(mlx5::kInlineFlag | std::uint32_t{sizeof value});
        std::memcpy(block, &control, sizeof control);
        std::memcpy(block + 16, &target, sizeof target);
        std::memcpy(block + 32, &header, sizeof header);
        std::memcpy(block + 36, &value, sizeof value);
        ++posted;
        std::atomic_ref(queue_pair.dbrec[MLX5_SND_DBR])
            .store(htobe32(posted), std::memory_order_release);
    }
    // Whether the next completion is there.
    bool completed() {
        const auto* const entry =
            static_cast<const std::byte*>(completions.buf) +
            std::size_t{consumed % completions.cqe_cnt} * completions.cqe_size;
        const auto* const last =
            reinterpret_cast<const mlx5_cqe64*>(entry + completions.cqe_size - sizeof(mlx5_cqe64));
        const std::uint8_t owner = __atomic_load_n(&last->op_own, __ATOMIC_ACQUIRE);
        const bool mine = (owner & 1) == ((consumed / completions.cqe_cnt) & 1);
        if (!mine || owner >> 4 != MLX5_CQE_REQ) return false;
        ++consumed;
        std::atomic_ref(completions.dbrec[0])
            .store(htobe32(consumed & 0xffffff), std::memory_order_release);
        return true;
    }

    interop::Side side;
    mlx5dv_qp queue_pair{};
    mlx5dv_cq completions{};
    std::uint16_t posted = 0;
    std::uint32_t consumed = 0;
};

TEST(UverbsDirect, RequestsWrittenPastLibibverbsAreExecuted) {
    const Context context = interop::open_device();
    RawQueues queues(context.get());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    // More than the ring has.
    for (std::uint64_t value = 1; value <= 100; ++value) {
        queues.post_write(&queues.side.word(0), value);
        while (!queues.completed()) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << value;
            std::this_thread::yield();
        }
        EXPECT_EQ(std::atomic_ref(queues.side.word(0)).load(), value);
    }
}

}  // namespace

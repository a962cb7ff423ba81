// A queue pair connected to itself, as a program sees it that needs libmlx5 for its queues only and
// writes and reads them past every function that the software NIC could be called by.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <verbatim/mlx5/formats.hpp>

#include "verbs_pair.hpp"

namespace verbatim::interop {

class RawQueues {
  public:
    explicit RawQueues(ibv_context* context, const SideOptions& options = {})
        : side(context, options) {
        connect(side.pair.get(), side.pair->qp_num);
        mlx5dv_obj objects{};
        objects.qp = {side.pair.get(), &queue_pair};
        objects.cq = {side.completions.get(), &completions};
        good(mlx5dv_init_obj(&objects, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), "mlx5dv_init_obj");
    }

    // A signaled write of eight inline bytes.
    void post_write(const void* to, std::uint64_t value) {
        std::byte* const block = next_block(MLX5_OPCODE_RDMA_WRITE, 3);
        const mlx5::RemoteAddressSegment target{
            mlx5::be64(reinterpret_cast<std::uint64_t>(to)), mlx5::be32(side.region->rkey), {}};
        std::memcpy(block + 16, &target, sizeof target);
        put_inline(block + 32, value);
        ring(block);
    }
    // A signaled send of eight inline bytes.
    void post_send(std::uint64_t value) {
        std::byte* const block = next_block(MLX5_OPCODE_SEND, 2);
        put_inline(block + 16, value);
        ring(block);
    }
    // No register is written for receives.
    void post_receive(std::size_t at, std::uint32_t bytes) {
        auto* const entry = reinterpret_cast<mlx5_wqe_data_seg*>(
            static_cast<std::byte*>(queue_pair.rq.buf) +
            std::size_t{received % queue_pair.rq.wqe_cnt} * queue_pair.rq.stride);
        mlx5dv_set_data_seg(entry, bytes, side.region->lkey,
                            reinterpret_cast<std::uintptr_t>(side.memory.data() + at));
        entry[1] = {0, htobe32(mlx5::kInvalidKey), 0};
        ++received;
        std::atomic_ref(queue_pair.dbrec[MLX5_RCV_DBR])
            .store(htobe32(received), std::memory_order_release);
    }
    void arm() {
        const std::uint32_t word = arms++ << 28 | (consumed & 0xffffff);
        std::atomic_ref(completions.dbrec[1]).store(htobe32(word));
        const auto both = std::uint64_t{htobe32(word)} | std::uint64_t{htobe32(completions.cqn)}
                                                             << 32;
        auto* const page = static_cast<std::byte*>(completions.cq_uar);
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(page + 0x20)).store(both);
    }

    // Takes the next completion if it is there: its opcode, or -1.
    int take() {
        const auto* const entry =
            static_cast<const std::byte*>(completions.buf) +
            std::size_t{consumed % completions.cqe_cnt} * completions.cqe_size;
        const auto* const last =
            reinterpret_cast<const mlx5_cqe64*>(entry + completions.cqe_size - sizeof(mlx5_cqe64));
        const std::uint8_t owner = __atomic_load_n(&last->op_own, __ATOMIC_ACQUIRE);
        const bool mine = (owner & 1) == ((consumed / completions.cqe_cnt) & 1);
        if (!mine || owner >> 4 == MLX5_CQE_INVALID) return -1;
        ++consumed;
        std::atomic_ref(completions.dbrec[0])
            .store(htobe32(consumed & 0xffffff), std::memory_order_release);
        return owner >> 4;
    }
    // Polls the queue's memory until there is one; -1 after ten seconds.
    int await() {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        for (;;) {
            if (const int opcode = take(); opcode >= 0) return opcode;
            if (std::chrono::steady_clock::now() > deadline) return -1;
            std::this_thread::yield();
        }
    }

    Side side;
    mlx5dv_qp queue_pair{};
    mlx5dv_cq completions{};
    std::uint16_t posted = 0, received = 0;
    std::uint32_t consumed = 0, arms = 0, half = 0;

  private:
    std::byte* next_block(std::uint8_t opcode, std::uint8_t units) {
        auto* const block = static_cast<std::byte*>(queue_pair.sq.buf) +
                            std::size_t{posted % queue_pair.sq.wqe_cnt} * queue_pair.sq.stride;
        mlx5_wqe_ctrl_seg control{};
        mlx5dv_set_ctrl_seg(&control, posted, opcode, 0, side.pair->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
                            units, 0, 0);
        std::memcpy(block, &control, sizeof control);
        return block;
    }
    static void put_inline(std::byte* at, std::uint64_t value) {
        const mlx5::be32 header(mlx5::kInlineFlag | std::uint32_t{sizeof value});
        std::memcpy(at, &header, sizeof header);
        std::memcpy(at + 4, &value, sizeof value);
    }
    void ring(const std::byte* block) {
        ++posted;
        std::atomic_ref(queue_pair.dbrec[MLX5_SND_DBR])
            .store(htobe32(posted), std::memory_order_release);
        std::uint64_t first = 0;
        std::memcpy(&first, block, sizeof first);
        auto* const at = static_cast<std::byte*>(queue_pair.bf.reg) + half;
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).store(first);
        half ^= queue_pair.bf.size;
    }
};

}  // namespace verbatim::interop

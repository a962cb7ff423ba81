// Rules and views of queue pairs' memory.
#include "queue_pair_layout.hpp"

#include <bit>
#include <cerrno>
#include <cstdint>

namespace verbatim::uverbs {
namespace {

// Of mlx5_ib_create_qp::flags: data in completion entries, and which register page.
constexpr std::uint32_t kProviderFlags = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
                                         MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX;

// Of queue pairs that only receive: nothing is ever posted here.
alignas(mlx5::kBlockBytes) std::byte no_block[mlx5::kBlockBytes];

}  // namespace

int check_layout(const mlx5_ib_create_qp& provider, std::size_t bytes) {
    constexpr std::uint32_t kPages = MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX;
    const bool good = bytes >= offsetof(mlx5_ib_create_qp, ece_options) &&
                      (provider.flags & ~kProviderFlags) == 0 &&
                      (provider.flags & kPages) != kPages && provider.reserved == 0;
    return good ? 0 : EINVAL;
}

int check_sizes(const mlx5_ib_create_qp& provider) {
    constexpr std::uint32_t kMaxBlocks = 1u << 15, kMaxStride = 16;
    const auto good = [](std::uint32_t count) {
        return count == 0 || (std::has_single_bit(count) && count <= kMaxBlocks);
    };
    const bool all = good(provider.sq_wqe_count) && good(provider.rq_wqe_count) &&
                     provider.rq_wqe_shift <= kMaxStride;
    return all ? 0 : EINVAL;
}

mlx5::QueuePairView view_of_target() {
    static volatile std::uint32_t no_record[2];
    mlx5::QueuePairView view;
    view.send_buffer = no_block;
    view.send_blocks = 1;
    view.doorbell_record = no_record;
    return view;
}

mlx5::QueuePairView view_of_queues(const mlx5_ib_create_qp& provider, bool own_receives) {
    mlx5::QueuePairView view;
    auto* const buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.receive_stride_log2 = provider.rq_wqe_shift;
    if (own_receives && provider.rq_wqe_count != 0) {
        view.receive_buffer = buffer;
        view.receive_entries = provider.rq_wqe_count;
    }
    const bool sends = provider.sq_wqe_count != 0;
    view.send_buffer =
        sends ? buffer + (std::size_t{provider.rq_wqe_count} << provider.rq_wqe_shift) : no_block;
    view.send_blocks = sends ? provider.sq_wqe_count : 1;
    view.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(provider.db_addr);
    return view;
}

// As mlx5's kernel driver sets it up: received data where the program's libmlx5 does not refuse it,
// what is read only where every request completes, or the program says that it knows. In longer
// entries libmlx5 does not find what was read.
void allow_data_in_entries(softnic::QueuePairParts& parts, std::uint32_t flags, bool all_signaled) {
    if ((flags & MLX5_QP_FLAG_SCATTER_CQE) == 0 || parts.names_queues ||
        parts.view.transport == mlx5::Transport::unreliable_datagram)
        return;
    const auto is_long = [](const softnic::CompletionQueue& queue) {
        return queue.view().entry_bytes == sizeof(mlx5::Cqe128);
    };
    parts.receive_in_entry =
        is_long(*parts.receive_completions) ? softnic::kDataBeforeEntry : softnic::kDataInEntry;
    const bool reads = parts.view.transport == mlx5::Transport::reliable_connection &&
                       (all_signaled || (flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE) != 0);
    if (reads && !is_long(*parts.send_completions)) parts.result_in_entry = softnic::kDataInEntry;
}

}  // namespace verbatim::uverbs

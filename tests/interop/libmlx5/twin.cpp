// Requests in libmlx5's words, and the device's part.
#include "twin.hpp"

#include "lib_requests.hpp"
#include "sides.hpp"

namespace verbatim::interop {
namespace {

ibv_mw_bind_info binding_of(const mlx5::WindowBinding& window, ibv_mr* region) {
    const unsigned access = (window.remote_read ? unsigned{IBV_ACCESS_REMOTE_READ} : 0u) |
                            (window.remote_write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0u) |
                            (window.remote_atomic ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0u) |
                            (window.zero_based ? unsigned{IBV_ACCESS_ZERO_BASED} : 0u);
    return {region, window.address, window.bytes, access};
}

void build_opcode(ibv_qp_ex* pair, const WorkRequest& work) {
    const std::uint32_t key = work.remote_key;
    const std::uint64_t address = work.remote_address;
    switch (work.opcode) {
        case Opcode::write:
            return ibv_wr_rdma_write(pair, key, address);
        case Opcode::write_immediate:
            return ibv_wr_rdma_write_imm(pair, key, address, htobe32(work.immediate));
        case Opcode::send:
            return ibv_wr_send(pair);
        case Opcode::send_immediate:
            return ibv_wr_send_imm(pair, htobe32(work.immediate));
        case Opcode::read:
            return ibv_wr_rdma_read(pair, key, address);
        case Opcode::compare_swap:
            return ibv_wr_atomic_cmp_swp(pair, key, address, work.compare, work.swap_or_add);
        case Opcode::fetch_add:
            return ibv_wr_atomic_fetch_add(pair, key, address, work.swap_or_add);
        case Opcode::send_invalidate:
            return ibv_wr_send_inv(pair, work.invalidated_key);
        case Opcode::local_invalidate:
            return ibv_wr_local_inv(pair, work.invalidated_key);
        default:
            throw std::logic_error("libmlx5 has no such opcode");
    }
}

// libmlx5 looks at a window's key and type only.
ibv_mw window_of(const ibv_qp& pair, const mlx5::WindowBinding& window) {
    ibv_mw made{};
    made.context = pair.context;
    made.pd = pair.pd;
    made.rkey = window.window_key;
    made.type = window.of_queue_pair ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
    return made;
}

void build(ibv_qp_ex* pair, const WorkRequest& work, ibv_mr* region) {
    pair->wr_id = work.id;
    pair->wr_flags = lib_flags(work);
    if (work.opcode == Opcode::bind_window) {
        ibv_mw window = window_of(pair->qp_base, *work.window);
        const ibv_mw_bind_info binding = binding_of(*work.window, region);
        return ibv_wr_bind_mw(pair, &window, work.window->new_key, &binding);
    }
    build_opcode(pair, work);
    if (work.opcode == Opcode::local_invalidate) return;
    if (!work.inline_payload.empty())
        return ibv_wr_set_inline_data(pair, const_cast<std::byte*>(work.inline_payload.data()),
                                      work.inline_payload.size());
    std::vector<ibv_sge> elements;
    for (const mlx5::Element& element : work.elements)
        elements.push_back({element.address, element.bytes, element.local_key});
    ibv_wr_set_sge_list(pair, elements.size(), elements.data());
}

// Padding of inline payload, the comparand of a fetch-and-add, and the fields of a key that the
// mask of its update does not name.
void blank_ignored(std::span<std::byte> wqe, unsigned opcode) {
    const auto blank = [&](std::size_t at, std::size_t bytes) {
        std::memset(wqe.data() + at, 0, bytes);
    };
    if (opcode == MLX5_OPCODE_ATOMIC_FA) return blank(40, 8);
    if (opcode == MLX5_OPCODE_UMR) {
        mlx5_wqe_umr_ctrl_seg update;
        std::memcpy(&update, wqe.data() + 16, sizeof update);
        const std::uint64_t mask = be64toh(update.mkey_mask);
        blank(64 + 1, 1), blank(64 + 3, 1), blank(64 + 8, 8), blank(64 + 32, 32);
        if ((mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ) == 0) blank(64 + 2, 1);
        if ((mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR) == 0) blank(64 + 16, 8);
        if ((mask & MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN) == 0) blank(64 + 24, 8);
        return;
    }
    const bool is_write = opcode == MLX5_OPCODE_RDMA_WRITE || opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
    const bool is_send = opcode == MLX5_OPCODE_SEND || opcode == MLX5_OPCODE_SEND_IMM ||
                         opcode == MLX5_OPCODE_SEND_INVAL;
    const std::size_t payload = is_write ? 32 : 16;
    if (!(is_write || is_send) || wqe.size() <= payload) return;
    std::uint32_t header = 0;
    std::memcpy(&header, wqe.data() + payload, sizeof header);
    header = be32toh(header);
    const std::size_t end = payload + 4 + (header & 0x3ff);
    if ((header & MLX5_INLINE_SEG) != 0 && end < wqe.size()) blank(end, wqe.size() - end);
}

}  // namespace

// Zeroes what the device ignores of the WQE at `block`, in it and behind it; its blocks.
std::uint32_t Twin::blank_the_rest(std::vector<std::byte>& wqes, std::uint32_t block) const {
    std::byte* const wqe = wqes.data() + std::size_t{block} * 64;
    mlx5_wqe_ctrl_seg control;
    std::memcpy(&control, wqe, sizeof control);
    const std::size_t bytes = std::size_t{be32toh(control.qpn_ds) & 0x3f} * 16;
    const auto blocks = static_cast<std::uint32_t>((bytes + 63) / 64);
    const std::size_t room = wqes.size() - std::size_t{block} * 64;
    if (blocks == 0 || blocks * std::size_t{64} > room)
        return static_cast<std::uint32_t>(room / 64);
    std::memset(wqe + bytes, 0, blocks * std::size_t{64} - bytes);
    blank_ignored({wqe, bytes}, be32toh(control.opmod_idx_opcode) & 0xff);
    return blocks;
}

// Zeroes the immediate of a WQE whose opcode has none.
void Twin::blank_immediate(std::byte* wqe) {
    mlx5_wqe_ctrl_seg control;
    std::memcpy(&control, wqe, sizeof control);
    const unsigned opcode = be32toh(control.opmod_idx_opcode) & 0xff;
    for (const unsigned with : {MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_RDMA_WRITE_IMM,
                                MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_UMR})
        if (opcode == with) return;
    std::memset(wqe + offsetof(mlx5_wqe_ctrl_seg, imm), 0, sizeof control.imm);
}

// The half that was written: behind the WQE's end there is anything.
void Twin::blank_register(Register& bells, std::span<const std::byte> wqe, bool by_builder) const {
    for (std::size_t half = 0; half < bells.size(); half += 256) {
        if (std::memcmp(bells.data() + half, wqe.data(), 8) != 0) continue;
        const bool copied = std::any_of(bells.begin() + static_cast<std::ptrdiff_t>(half) + 8,
                                        bells.begin() + static_cast<std::ptrdiff_t>(half) + 256,
                                        [](std::byte b) { return b != std::byte{0}; });
        if (!copied) continue;
        std::vector<std::byte> copy(bells.begin() + static_cast<std::ptrdiff_t>(half),
                                    bells.begin() + static_cast<std::ptrdiff_t>(half + wqe.size()));
        blank_the_rest(copy, 0);
        if (by_builder) blank_immediate(copy.data());
        std::copy(copy.begin(), copy.end(), bells.begin() + static_cast<std::ptrdiff_t>(half));
    }
}

void Twin::post_to_lib(std::span<Request> requests) {
    std::vector<LibRequest> theirs(requests.size());
    std::vector<ibv_mw> windows(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const WorkRequest& work = requests[i].get();
        fill(theirs[i], work);
        if (work.window != nullptr) {
            windows[i] = window_of(*lib_.pair, *work.window);
            theirs[i].wr.bind_mw = {&windows[i], work.window->new_key,
                                    binding_of(*work.window, region_.get())};
        }
        if (i > 0) theirs[i - 1].wr.next = &theirs[i].wr;
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(lib_.pair.get(), &theirs[0].wr, &bad), 0);
}

void Twin::post(std::span<Request> requests) {
    post_to_lib(requests);
    std::vector<WorkRequest> ours;
    for (Request& request : requests) ours.push_back(request.get());
    ASSERT_EQ(send_.post(ours), Errc::ok);
    expect_same(static_cast<std::uint32_t>(requests.size()));
    expect_describes(requests);
}

void Twin::post_by_builder(std::span<Request> requests) {
    ibv_qp_ex* const pair = ibv_qp_to_qp_ex(lib_.pair.get());
    std::vector<WorkRequest> ours;
    ibv_wr_start(pair);
    for (Request& request : requests) {
        ours.push_back(request.get());
        build(pair, ours.back(), region_.get());
    }
    ASSERT_EQ(ibv_wr_complete(pair), 0);
    ASSERT_EQ(send_.post(ours), Errc::ok);
    expect_same(static_cast<std::uint32_t>(requests.size()), true);
    expect_describes(requests);
}

void Twin::complete(std::uint32_t counter, std::uint8_t error_syndrome, std::uint32_t bytes) {
    const std::uint32_t entries = lib_.completion_facts.cqe_cnt;
    const std::size_t entry_bytes = lib_.completion_facts.cqe_size;
    const std::size_t at = std::size_t{produced_ % entries} * entry_bytes + entry_bytes - 64;
    mlx5_wqe_ctrl_seg control;
    std::memcpy(&control, ring_.data() + std::size_t{counter % blocks()} * 64, sizeof control);
    mlx5_cqe64 entry{};
    entry.srqn_uidx = htobe32(LibQueues::kUserIndex);
    entry.sop_drop_qpn = htobe32((be32toh(control.opmod_idx_opcode) << 24) | lib_.pair->qp_num);
    entry.wqe_counter = htobe16(static_cast<std::uint16_t>(counter));
    entry.byte_cnt = htobe32(bytes);
    if (error_syndrome != 0) {
        reinterpret_cast<mlx5_err_cqe&>(entry).syndrome = error_syndrome;
        reinterpret_cast<mlx5_err_cqe&>(entry).vendor_err_synd = 0x5a;
    }
    const unsigned opcode = error_syndrome != 0 ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ;
    entry.op_own = static_cast<std::uint8_t>(opcode << 4 | ((produced_ / entries) & 1));
    ++produced_;
    std::memcpy(static_cast<std::byte*>(lib_.completion_facts.buf) + at, &entry, sizeof entry);
    std::memcpy(completion_ring_.data() + at, &entry, sizeof entry);

    ibv_wc theirs{};
    ASSERT_EQ(ibv_poll_cq(lib_.completions.get(), 1, &theirs), 1);
    mlx5::Completion ours;
    ASSERT_EQ(completions_.poll(std::span(&ours, 1)), 1u);
    EXPECT_EQ(ours.id, theirs.wr_id);
    EXPECT_TRUE(same_failure(theirs.status, ours.status)) << theirs.status;
    EXPECT_EQ(ours.queue_pair, theirs.qp_num);
    if (error_syndrome == 0) {
        EXPECT_EQ(lib_opcode_of(ours.opcode), theirs.opcode);
        if (ours.opcode == Opcode::read || mlx5::is_atomic(ours.opcode)) {
            EXPECT_EQ(ours.bytes, theirs.byte_len);
        }
    } else {
        EXPECT_EQ(ours.vendor_syndrome, theirs.vendor_err);
    }
    EXPECT_EQ(be32toh(completion_records_[0]), be32toh(lib_.completion_facts.dbrec[0]))
        << "consumer index";
}

}  // namespace verbatim::interop

// Our layouts and constants against rdma-core's, which were written by other hands.
#include <verbatim/mlx5/formats.hpp>

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include <verbatim/mlx5/encode.hpp>

namespace verbatim::mlx5 {
namespace {

#define EXPECT_SAME_PLACE(ours, our_field, theirs, their_field)          \
    EXPECT_EQ(offsetof(ours, our_field), offsetof(theirs, their_field)); \
    EXPECT_EQ(sizeof(ours::our_field), sizeof(theirs::their_field))

TEST(Formats, send_segments_lie_as_in_rdma_core) {
    EXPECT_EQ(sizeof(ControlSegment), sizeof(mlx5_wqe_ctrl_seg));
    EXPECT_SAME_PLACE(ControlSegment, opmod_index_opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode);
    EXPECT_SAME_PLACE(ControlSegment, number_units, mlx5_wqe_ctrl_seg, qpn_ds);
    EXPECT_SAME_PLACE(ControlSegment, signature, mlx5_wqe_ctrl_seg, signature);
    EXPECT_SAME_PLACE(ControlSegment, stream, mlx5_wqe_ctrl_seg, dci_stream_channel_id);
    EXPECT_SAME_PLACE(ControlSegment, fence_completion_event, mlx5_wqe_ctrl_seg, fm_ce_se);
    EXPECT_SAME_PLACE(ControlSegment, immediate, mlx5_wqe_ctrl_seg, imm);
    EXPECT_EQ(sizeof(RemoteAddressSegment), sizeof(mlx5_wqe_raddr_seg));
    EXPECT_SAME_PLACE(RemoteAddressSegment, address, mlx5_wqe_raddr_seg, raddr);
    EXPECT_SAME_PLACE(RemoteAddressSegment, key, mlx5_wqe_raddr_seg, rkey);
    EXPECT_EQ(sizeof(DatagramSegment), sizeof(mlx5_wqe_datagram_seg));
    EXPECT_SAME_PLACE(DatagramSegment, queue_key, mlx5_wqe_av, key.qkey.qkey);
    EXPECT_SAME_PLACE(DatagramSegment, extended_number, mlx5_wqe_av, dqp_dct);
    EXPECT_SAME_PLACE(DatagramSegment, rate_priority, mlx5_wqe_av, stat_rate_sl);
    EXPECT_SAME_PLACE(DatagramSegment, path_bits, mlx5_wqe_av, fl_mlid);
    EXPECT_SAME_PLACE(DatagramSegment, destination, mlx5_wqe_av, rlid);
    EXPECT_SAME_PLACE(DatagramSegment, mac, mlx5_wqe_av, rmac);
    EXPECT_SAME_PLACE(DatagramSegment, traffic_class, mlx5_wqe_av, tclass);
    EXPECT_SAME_PLACE(DatagramSegment, hop_limit, mlx5_wqe_av, hop_limit);
    EXPECT_SAME_PLACE(DatagramSegment, route, mlx5_wqe_av, grh_gid_fl);
    EXPECT_SAME_PLACE(DatagramSegment, gid, mlx5_wqe_av, rgid);
    EXPECT_EQ(sizeof(AtomicSegment), sizeof(mlx5_wqe_atomic_seg));
    EXPECT_SAME_PLACE(AtomicSegment, swap_or_add, mlx5_wqe_atomic_seg, swap_add);
    EXPECT_SAME_PLACE(AtomicSegment, compare, mlx5_wqe_atomic_seg, compare);
    EXPECT_EQ(sizeof(DataSegment), sizeof(mlx5_wqe_data_seg));
    EXPECT_SAME_PLACE(DataSegment, byte_count, mlx5_wqe_data_seg, byte_count);
    EXPECT_SAME_PLACE(DataSegment, key, mlx5_wqe_data_seg, lkey);
    EXPECT_SAME_PLACE(DataSegment, address, mlx5_wqe_data_seg, addr);
    EXPECT_EQ(sizeof(InlineHeader), sizeof(mlx5_wqe_inl_data_seg));
    EXPECT_EQ(sizeof(SharedReceiveNextSegment), sizeof(mlx5_wqe_srq_next_seg));
    EXPECT_SAME_PLACE(SharedReceiveNextSegment, next_index, mlx5_wqe_srq_next_seg, next_wqe_index);
    EXPECT_SAME_PLACE(SharedReceiveNextSegment, signature, mlx5_wqe_srq_next_seg, signature);
}

TEST(Formats, completions_lie_as_in_rdma_core) {
    EXPECT_EQ(sizeof(Cqe), sizeof(mlx5_cqe64));
    EXPECT_SAME_PLACE(Cqe, shared_receive_index, mlx5_cqe64, srqn_uidx);
    EXPECT_SAME_PLACE(Cqe, immediate, mlx5_cqe64, imm_inval_pkey);
    EXPECT_SAME_PLACE(Cqe, app, mlx5_cqe64, app);
    EXPECT_SAME_PLACE(Cqe, app_op, mlx5_cqe64, app_op);
    EXPECT_SAME_PLACE(Cqe, app_info, mlx5_cqe64, app_info);
    EXPECT_SAME_PLACE(Cqe, byte_count, mlx5_cqe64, byte_cnt);
    EXPECT_SAME_PLACE(Cqe, timestamp, mlx5_cqe64, timestamp);
    EXPECT_SAME_PLACE(Cqe, opcode_number, mlx5_cqe64, sop_drop_qpn);
    EXPECT_SAME_PLACE(Cqe, wqe_counter, mlx5_cqe64, wqe_counter);
    EXPECT_SAME_PLACE(Cqe, signature, mlx5_cqe64, signature);
    EXPECT_SAME_PLACE(Cqe, op_own, mlx5_cqe64, op_own);
    EXPECT_EQ(sizeof(ErrorCqe), sizeof(mlx5_err_cqe));
    EXPECT_SAME_PLACE(ErrorCqe, shared_receive_index, mlx5_err_cqe, srqn);
    EXPECT_SAME_PLACE(ErrorCqe, vendor_syndrome, mlx5_err_cqe, vendor_err_synd);
    EXPECT_SAME_PLACE(ErrorCqe, syndrome, mlx5_err_cqe, syndrome);
    EXPECT_SAME_PLACE(ErrorCqe, opcode_number, mlx5_err_cqe, s_wqe_opcode_qpn);
    EXPECT_SAME_PLACE(ErrorCqe, wqe_counter, mlx5_err_cqe, wqe_counter);
    EXPECT_SAME_PLACE(ErrorCqe, op_own, mlx5_err_cqe, op_own);
}

#undef EXPECT_SAME_PLACE

TEST(Formats, constants_have_the_values_of_rdma_core) {
    EXPECT_EQ(static_cast<int>(Opcode::nop), MLX5_OPCODE_NOP);
    EXPECT_EQ(static_cast<int>(Opcode::write), MLX5_OPCODE_RDMA_WRITE);
    EXPECT_EQ(static_cast<int>(Opcode::write_immediate), MLX5_OPCODE_RDMA_WRITE_IMM);
    EXPECT_EQ(static_cast<int>(Opcode::send), MLX5_OPCODE_SEND);
    EXPECT_EQ(static_cast<int>(Opcode::send_immediate), MLX5_OPCODE_SEND_IMM);
    EXPECT_EQ(static_cast<int>(Opcode::read), MLX5_OPCODE_RDMA_READ);
    EXPECT_EQ(static_cast<int>(Opcode::compare_swap), MLX5_OPCODE_ATOMIC_CS);
    EXPECT_EQ(static_cast<int>(Opcode::fetch_add), MLX5_OPCODE_ATOMIC_FA);
    EXPECT_EQ(static_cast<int>(CqeOpcode::requester), MLX5_CQE_REQ);
    EXPECT_EQ(static_cast<int>(CqeOpcode::write_immediate), MLX5_CQE_RESP_WR_IMM);
    EXPECT_EQ(static_cast<int>(CqeOpcode::send), MLX5_CQE_RESP_SEND);
    EXPECT_EQ(static_cast<int>(CqeOpcode::send_immediate), MLX5_CQE_RESP_SEND_IMM);
    EXPECT_EQ(static_cast<int>(CqeOpcode::send_invalidate), MLX5_CQE_RESP_SEND_INV);
    EXPECT_EQ(static_cast<int>(CqeOpcode::requester_error), MLX5_CQE_REQ_ERR);
    EXPECT_EQ(static_cast<int>(CqeOpcode::responder_error), MLX5_CQE_RESP_ERR);
    EXPECT_EQ(static_cast<int>(CqeOpcode::invalid), MLX5_CQE_INVALID);
    EXPECT_EQ(kCompletionAlways, MLX5_WQE_CTRL_CQ_UPDATE);
    EXPECT_EQ(kSolicited, MLX5_WQE_CTRL_SOLICITED);
    EXPECT_EQ(kFence, MLX5_WQE_CTRL_FENCE);
    EXPECT_EQ(kSmallFence, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
    EXPECT_EQ(kInvalidKey, MLX5_INVALID_LKEY);
    EXPECT_EQ(kInlineFlag, static_cast<std::uint32_t>(MLX5_INLINE_SEG));
    EXPECT_EQ(kInlineScatter32, MLX5_INLINE_SCATTER_32);
    EXPECT_EQ(kInlineScatter64, MLX5_INLINE_SCATTER_64);
    EXPECT_EQ(kBlockBytes, MLX5_SEND_WQE_BB);
    EXPECT_EQ(kRecordReceive, MLX5_RCV_DBR);
    EXPECT_EQ(kRecordSend, MLX5_SND_DBR);
}

TEST(Formats, every_syndrome_of_rdma_core_has_its_error_code) {
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR), Errc::local_length);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR), Errc::local_queue_pair);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR), Errc::local_protection);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_WR_FLUSH_ERR), Errc::flushed);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_MW_BIND_ERR), Errc::local_queue_pair);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_BAD_RESP_ERR), Errc::remote_operation);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR), Errc::local_protection);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR), Errc::remote_invalid);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR), Errc::remote_access);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_REMOTE_OP_ERR), Errc::remote_operation);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR), Errc::retry_exceeded);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR), Errc::rnr_exceeded);
    EXPECT_EQ(to_errc(MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR), Errc::aborted);
    EXPECT_EQ(to_errc(0), Errc::aborted);
    EXPECT_EQ(to_errc(0xff), Errc::aborted);
}

TEST(Formats, control_segments_equal_those_of_rdma_core) {
    for (const std::uint16_t index : std::array<std::uint16_t, 5>{0, 0xff, 0x100, 0x8001, 0xffff}) {
        mlx5_wqe_ctrl_seg theirs;
        std::memset(&theirs, 0, sizeof theirs);
        mlx5dv_set_ctrl_seg(&theirs, index, MLX5_OPCODE_SEND_IMM, 0, 0xabcdef,
                            MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_FENCE, 63, 0,
                            htobe32(0x01020304));
        const std::array<std::uint64_t, 2> words{
            control_word(Opcode::send_immediate, 0x70000U | index, 0xabcdef, 63),
            flags_word(kCompletionAlways | kFence, 0x01020304)};
        EXPECT_EQ(std::memcmp(words.data(), &theirs, sizeof theirs), 0) << index;
        const auto ours = std::bit_cast<ControlSegment>(words);
        EXPECT_EQ(index_of(ours), index);
        EXPECT_EQ(opcode_of(ours), MLX5_OPCODE_SEND_IMM);
        EXPECT_EQ(modifier_of(ours), 0);
        EXPECT_EQ(number_of(ours), 0xabcdefU);
        EXPECT_EQ(units_of(ours), 63U);
    }
}

TEST(Formats, op_own_reads_back_as_rdma_core_reads_it) {
    mlx5_cqe64 cqe{};
    cqe.op_own = make_op_own(CqeOpcode::send_immediate, true, kInlineScatter32);
    EXPECT_EQ(mlx5dv_get_cqe_opcode(&cqe), MLX5_CQE_RESP_SEND_IMM);
    EXPECT_EQ(mlx5dv_get_cqe_owner(&cqe), 1);
    EXPECT_EQ(mlx5dv_get_cqe_format(&cqe), MLX5_INLINE_SCATTER_32 >> 2);
}

TEST(Endian, stores_the_most_significant_byte_first) {
    const be32 value(0x01020304);
    const auto bytes = std::bit_cast<std::array<unsigned char, 4>>(value);
    EXPECT_EQ(bytes, (std::array<unsigned char, 4>{1, 2, 3, 4}));
    EXPECT_EQ(be64(0x0102030405060708).native(), 0x0102030405060708U);
    EXPECT_EQ(be16::from_raw(be16(0xbeef).raw()), be16(0xbeef));
}

}  // namespace
}  // namespace verbatim::mlx5

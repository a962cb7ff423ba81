// Completions of verbs as completion entries. Of a failed one verbs says no more than wr_id,
// status, queue pair and vendor's word, so whatever else an entry needs is in the tag.
#include "completion_translator.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "tag.hpp"

namespace verbatim::verbs {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;

mlx5::ErrorCqe error_entry(const Tag& tag, std::uint32_t queue_pair, Syndrome syndrome,
                           std::uint32_t vendor) noexcept {
    mlx5::ErrorCqe entry;
    entry.syndrome = static_cast<std::uint8_t>(syndrome);
    entry.vendor_syndrome = static_cast<std::uint8_t>(vendor);
    entry.opcode_number = mlx5::be32(std::uint32_t{tag.opcode} << 24 | (queue_pair & 0xffffff));
    entry.wqe_counter = mlx5::be16(tag.counter);
    entry.op_own = mlx5::make_op_own(
        tag.receive ? CqeOpcode::responder_error : CqeOpcode::requester_error, false);
    return entry;
}

// What a device says of a request that its driver would not even take.
Syndrome refusal_of(const Tag& tag) noexcept {
    const bool updates_key = tag.opcode == mlx5::wire_opcode(mlx5::Opcode::local_invalidate);
    return updates_key ? Syndrome::window_bind : Syndrome::local_queue_pair;
}

CqeOpcode received_by(const ibv_wc& completion) noexcept {
    if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) return CqeOpcode::write_immediate;
    if ((completion.wc_flags & IBV_WC_WITH_INV) != 0) return CqeOpcode::send_invalidate;
    return (completion.wc_flags & IBV_WC_WITH_IMM) != 0 ? CqeOpcode::send_immediate
                                                        : CqeOpcode::send;
}

mlx5::Cqe good_entry(const Tag& tag, const ibv_wc& completion) noexcept {
    mlx5::Cqe entry;
    entry.opcode_number =
        mlx5::be32(std::uint32_t{tag.opcode} << 24 | (completion.qp_num & 0xffffff));
    entry.wqe_counter = mlx5::be16(tag.counter);
    entry.byte_count = mlx5::be32(completion.byte_len);
    const CqeOpcode opcode = tag.receive ? received_by(completion) : CqeOpcode::requester;
    // An immediate comes as the wire had it, an invalidated key as a number.
    entry.immediate = opcode == CqeOpcode::send_invalidate
                          ? mlx5::be32(completion.invalidated_rkey)
                          : mlx5::be32::from_raw(completion.imm_data);
    entry.op_own = mlx5::make_op_own(opcode, false);
    return entry;
}

}  // namespace

Syndrome syndrome_of(ibv_wc_status status) noexcept {
    switch (status) {
        case IBV_WC_LOC_LEN_ERR:
            return Syndrome::local_length;
        case IBV_WC_LOC_QP_OP_ERR:
        case IBV_WC_LOC_EEC_OP_ERR:
            return Syndrome::local_queue_pair;
        case IBV_WC_LOC_PROT_ERR:
            return Syndrome::local_protection;
        case IBV_WC_WR_FLUSH_ERR:
            return Syndrome::flushed;
        case IBV_WC_MW_BIND_ERR:
            return Syndrome::window_bind;
        case IBV_WC_BAD_RESP_ERR:
            return Syndrome::bad_response;
        case IBV_WC_LOC_ACCESS_ERR:
            return Syndrome::local_access;
        case IBV_WC_REM_INV_REQ_ERR:
            return Syndrome::remote_invalid;
        case IBV_WC_REM_ACCESS_ERR:
            return Syndrome::remote_access;
        case IBV_WC_REM_OP_ERR:
            return Syndrome::remote_operation;
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RESP_TIMEOUT_ERR:
            return Syndrome::retry_exceeded;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            return Syndrome::rnr_exceeded;
        default:
            return Syndrome::remote_aborted;
    }
}

int CompletionTranslator::room() const noexcept {
    const mlx5::CompletionQueueView& view = ring_.view();
    const std::uint32_t consumed =
        softnic::read_record(view.doorbell_record + mlx5::kRecordConsumer);
    const std::uint32_t used = (ring_.produced() - consumed) & mlx5::kConsumerIndexMask;
    return used >= view.entries
               ? 0
               : static_cast<int>(std::min<std::uint32_t>(view.entries - used, kBatch));
}

void CompletionTranslator::progress() noexcept {
    const int wanted = room();
    if (wanted == 0) return;
    std::array<ibv_wc, kBatch> found;
    // Negative: the queue itself broke. Its queue pairs are in the error state then, and hear it.
    const int count = ibv_poll_cq(queue_, wanted, found.data());
    for (int i = 0; i < count; ++i) push(found[static_cast<std::size_t>(i)]);
}

void CompletionTranslator::push(const ibv_wc& completion) noexcept {
    if (!Life::current(completion.wr_id)) return;
    const Tag tag = Tag::of(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS && !tag.refused) {
        ring_.push(good_entry(tag, completion));
        return;
    }
    const Syndrome syndrome = tag.refused ? refusal_of(tag) : syndrome_of(completion.status);
    ring_.push(error_entry(tag, completion.qp_num, syndrome, completion.vendor_err));
}

void CompletionTranslator::push_failure(std::uint32_t queue_pair, std::uint64_t bits) noexcept {
    const Tag tag = Tag::of(bits);
    ring_.push(error_entry(tag, queue_pair, tag.refused ? refusal_of(tag) : Syndrome::flushed, 0));
}

void CompletionTranslator::arm() noexcept {
    const std::uint32_t word =
        softnic::read_record(ring_.view().doorbell_record + mlx5::kRecordArm);
    static_cast<void>(ibv_req_notify_cq(queue_, (word & mlx5::kArmSolicited) != 0 ? 1 : 0));
}

}  // namespace verbatim::verbs

// From doorbell to ibv_post_send, and what happens when that refuses.
#include "send_translator.hpp"

#include <algorithm>

#include <verbatim/mlx5/formats.hpp>

#include "wqe_translation.hpp"

namespace verbatim::verbs {

SendTranslator::SendTranslator(const Parts& parts)
    : parts_(parts),
      elements_(std::make_unique<ibv_sge[]>(std::size_t{kBatch} * parts.max_elements)) {}

void SendTranslator::open() noexcept {
    gate_.enter_waiting();
    open_ = true;
    gate_.leave_for_good();
    run();
}

void SendTranslator::run() noexcept {
    if (!gate_.enter()) return;
    do {
        if (open_) execute();
    } while (!gate_.leave());
}

void SendTranslator::reset() noexcept {
    gate_.enter_waiting();
    open_ = refusing_ = tells_refusal_ = false;
    executed_ = 0;
    life_.renew();
    gate_.leave_for_good();
}

std::uint16_t SendTranslator::target() const noexcept {
    return static_cast<std::uint16_t>(
        softnic::read_record(parts_.view.doorbell_record + mlx5::kRecordSend));
}

void SendTranslator::execute() noexcept {
    while (executed_ != target()) {
        Way first = Way::listed;
        const std::uint32_t count = translate_list(first);
        if (count != 0) {
            if (!post_list(count)) refuse();
        } else if (first == Way::alone && bind_domain_window()) {
            step_over_first();
        } else {
            refuse();
        }
    }
}

std::uint32_t SendTranslator::translate_list(Way& first) noexcept {
    const std::uint16_t end = target();
    std::uint32_t count = 0;
    for (std::uint16_t at = executed_; at != end && count < kBatch; ++count) {
        const Way way = translate(at, count);
        if (count == 0) first = way;
        if (way != Way::listed) break;
        if (count != 0) work_[count - 1].next = &work_[count];
        at = behind_[count];
    }
    return count;
}

SendTranslator::Way SendTranslator::translate(std::uint16_t counter, std::uint32_t place) noexcept {
    const softnic::WqeReader wqe(parts_.view, counter);
    const auto control = wqe.read<mlx5::ControlSegment>(0);
    const std::uint32_t units = std::max(mlx5::units_of(control), 1U);
    behind_[place] = static_cast<std::uint16_t>(counter + mlx5::blocks_for_units(units));
    const Tag tag{.refused = tells_refusal_ && place == 0,
                  .opcode = mlx5::opcode_of(control),
                  .counter = counter};
    ibv_send_wr& work = work_[place];
    if (refusing_) {  // an empty write, which the failed queue pair flushes in its turn
        work = {};
        work.opcode = IBV_WR_RDMA_WRITE;
        work.send_flags = IBV_SEND_SIGNALED;
    } else {
        const std::span<ibv_sge> room(&elements_[std::size_t{place} * parts_.max_elements],
                                      parts_.max_elements);
        const TranslationFacts facts{parts_.keys, parts_.ring_key, parts_.inline_bytes};
        if (!translate_wqe(wqe, facts, room, work)) return Way::impossible;
    }
    work.wr_id = tag.bits() | life_.bits();
    const bool alone = work.opcode == IBV_WR_BIND_MW && work.bind_mw.mw->type == IBV_MW_TYPE_1;
    return alone ? Way::alone : Way::listed;
}

bool SendTranslator::post_list(std::uint32_t count) noexcept {
    // A provider that fails without naming the request took none.
    ibv_send_wr* refused = work_.data();
    if (ibv_post_send(parts_.queue_pair, work_.data(), &refused) == 0) refused = nullptr;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (&work_[i] == refused) return false;
        executed_ = behind_[i];
        tells_refusal_ = false;
    }
    return true;
}

// The provider chooses the key, as verbs has it; ours must be the one it will choose.
bool SendTranslator::bind_domain_window() noexcept {
    const ibv_send_wr& work = work_[0];
    ibv_mw* const window = work.bind_mw.mw;
    if (work.bind_mw.rkey != ibv_inc_rkey(window->rkey)) return false;
    ibv_mw_bind binding{};
    binding.wr_id = work.wr_id;
    binding.send_flags = work.send_flags;
    binding.bind_info = work.bind_mw.bind_info;
    return ibv_bind_mw(parts_.queue_pair, window, &binding) == 0;
}

void SendTranslator::refuse() noexcept {
    if (refusing_) return tell_failure();
    refusing_ = tells_refusal_ = true;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    static_cast<void>(ibv_modify_qp(parts_.queue_pair, &attributes, IBV_QP_STATE));
}

// The provider takes nothing, not even to flush it.
void SendTranslator::tell_failure() noexcept {
    static_cast<void>(translate(executed_, 0));  // for its tag
    parts_.completions->push_failure(parts_.view.number, work_[0].wr_id);
    tells_refusal_ = false;
    step_over_first();
}

}  // namespace verbatim::verbs

// Entries as the device would read them, and ibv_post_recv.
#include "receive_translator.hpp"

#include <cstring>

#include <verbatim/mlx5/formats.hpp>

#include "../softqueue/completion_ring.hpp"

namespace verbatim::verbs {

void ReceiveList::add(std::uint64_t id, std::span<const std::byte> segments) noexcept {
    ibv_sge* const elements = &elements_[std::size_t{count_} * max_elements_];
    std::uint32_t used = 0;
    for (; used < max_elements_ && segments.size() >= sizeof(mlx5::DataSegment); ++used) {
        mlx5::DataSegment segment;
        std::memcpy(&segment, segments.data(), sizeof segment);
        const std::uint32_t bytes = segment.byte_count.native();
        if (bytes == 0 && segment.key.native() == mlx5::kInvalidKey) break;
        elements[used] = {segment.address.native(), bytes == 0 ? mlx5::kMaxElementBytes : bytes,
                          segment.key.native()};
        segments = segments.subspan(sizeof segment);
    }
    work_[count_] = {id, nullptr, elements, static_cast<int>(used)};
    if (count_ != 0) work_[count_ - 1].next = &work_[count_];
    ++count_;
}

std::uint32_t ReceiveList::before(const ibv_recv_wr* refused) const noexcept {
    std::uint32_t before = 0;
    while (before < count_ && &work_[before] != refused) ++before;
    return before;
}

ReceiveTranslator::ReceiveTranslator(const mlx5::QueuePairView& view, ibv_qp* queue_pair,
                                     CompletionTranslator& completions)
    : view_(view),
      queue_pair_(queue_pair),
      completions_(completions),
      list_(view.max_receive_elements) {}

void ReceiveTranslator::open() noexcept {
    gate_.enter_waiting();
    open_ = true;
    gate_.leave_for_good();
    run();
}

void ReceiveTranslator::run() noexcept {
    if (!gate_.enter()) return;
    do {
        if (open_) execute();
    } while (!gate_.leave());
}

void ReceiveTranslator::reset() noexcept {
    gate_.enter_waiting();
    open_ = false;
    posted_ = 0;
    life_.renew();
    gate_.leave_for_good();
}

std::span<const std::byte> ReceiveTranslator::entry(std::uint16_t counter) const noexcept {
    const std::uint32_t index = counter & (view_.receive_entries - 1);
    return {view_.receive_buffer + (std::size_t{index} << view_.receive_stride_log2),
            std::size_t{1} << view_.receive_stride_log2};
}

void ReceiveTranslator::execute() noexcept {
    const auto target = static_cast<std::uint16_t>(
        softnic::read_record(view_.doorbell_record + mlx5::kRecordReceive));
    while (posted_ != target) {
        list_.clear();
        for (std::uint16_t at = posted_; at != target && !list_.full(); ++at)
            list_.add(Tag{.receive = true, .counter = at}.bits() | life_.bits(), entry(at));
        ibv_recv_wr* refused = list_.first();
        if (ibv_post_recv(queue_pair_, list_.first(), &refused) == 0) refused = nullptr;
        const std::uint32_t taken = list_.before(refused);
        posted_ = static_cast<std::uint16_t>(posted_ + taken);
        if (taken != list_.count()) refuse();
    }
}

void ReceiveTranslator::refuse() noexcept {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    static_cast<void>(ibv_modify_qp(queue_pair_, &attributes, IBV_QP_STATE));
    completions_.push_failure(view_.number, Tag{.receive = true, .counter = posted_}.bits());
    ++posted_;
}

void SharedReceiveTranslator::run() noexcept {
    const auto target = static_cast<std::uint16_t>(
        softnic::read_record(view_.doorbell_record + mlx5::kRecordShared));
    while (posted_ != target) {
        list_.clear();
        std::uint16_t index = next_;
        std::array<std::uint16_t, ReceiveList::kBatch> behind;
        for (std::uint16_t at = posted_; at != target && !list_.full(); ++at) {
            const std::byte* const entry = view_.buffer + (std::size_t{index} << view_.stride_log2);
            mlx5::SharedReceiveNextSegment link;
            std::memcpy(&link, entry, sizeof link);
            const std::size_t bytes = (std::size_t{1} << view_.stride_log2) - sizeof link;
            const Tag tag{.receive = true, .counter = index};
            index = static_cast<std::uint16_t>(link.next_index.native() & (view_.entries - 1));
            behind[list_.count()] = index;
            list_.add(tag.bits() | life_.bits(), {entry + sizeof link, bytes});
        }
        ibv_recv_wr* refused = list_.first();
        if (ibv_post_srq_recv(queue_, list_.first(), &refused) == 0) refused = nullptr;
        const std::uint32_t taken = list_.before(refused);
        if (taken == 0) return;
        posted_ = static_cast<std::uint16_t>(posted_ + taken);
        next_ = behind[taken - 1];
    }
}

}  // namespace verbatim::verbs

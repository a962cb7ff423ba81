// Posts receives by ibv_post_recv and ibv_post_srq_recv: reads the entries that mlx5::ReceiveQueue
// and mlx5::SharedReceiveQueue made, as a device would. Threads: the posting one; of a shared queue
// one at a time.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/driver/queue_view.hpp>

#include "../softqueue/gate.hpp"
#include "completion_translator.hpp"
#include "tag.hpp"

namespace verbatim::verbs {

// A list of receives under way to verbs.
class ReceiveList {
  public:
    explicit ReceiveList(std::uint32_t max_elements)
        : max_elements_(max_elements),
          elements_(std::make_unique<ibv_sge[]>(std::size_t{kBatch} * max_elements)) {}

    bool full() const noexcept { return count_ == kBatch; }
    std::uint32_t count() const noexcept { return count_; }
    void clear() noexcept { count_ = 0; }
    // `segments`: the entry's scatter list.
    void add(std::uint64_t id, std::span<const std::byte> segments) noexcept;
    ibv_recv_wr* first() noexcept { return work_.data(); }
    // How many there are before this one; all, where it is null.
    std::uint32_t before(const ibv_recv_wr* refused) const noexcept;

    static constexpr std::uint32_t kBatch = 16;

  private:
    std::uint32_t max_elements_, count_ = 0;
    std::array<ibv_recv_wr, kBatch> work_;
    std::unique_ptr<ibv_sge[]> elements_;
};

class ReceiveTranslator {
  public:
    ReceiveTranslator(const mlx5::QueuePairView& view, ibv_qp* queue_pair,
                      CompletionTranslator& completions);

    // As SendTranslator's.
    void open() noexcept;
    void run() noexcept;
    void reset() noexcept;

  private:
    void execute() noexcept;
    // The device does not take it, for no reason that it could have: the queue pair fails.
    void refuse() noexcept;
    std::span<const std::byte> entry(std::uint16_t counter) const noexcept;

    const mlx5::QueuePairView view_;
    ibv_qp* queue_pair_;
    CompletionTranslator& completions_;
    softnic::Gate gate_;
    Life life_;
    std::uint16_t posted_ = 0;
    bool open_ = false;
    ReceiveList list_;
};

class SharedReceiveTranslator {
  public:
    SharedReceiveTranslator(const mlx5::SharedReceiveQueueView& view, ibv_srq* queue)
        : view_(view), queue_(queue), list_(view.max_elements) {}

    // After the record was written. What the device refuses (it has room for all, so that is a
    // fault of its driver) is tried again with the next post.
    void run() noexcept;

  private:
    const mlx5::SharedReceiveQueueView view_;
    ibv_srq* queue_;
    Life life_;
    std::uint16_t posted_ = 0;  // ever
    std::uint16_t next_ = 0;    // entry to post next
    ReceiveList list_;
};

}  // namespace verbatim::verbs

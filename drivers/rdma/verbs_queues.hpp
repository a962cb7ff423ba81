// Queues of a device that is posted to and polled through verbs. Their views show memory of our
// own, and hooks that translate: to the data path they are queues of a software device.
#pragma once

#include <memory>

#include <verbatim/driver/device.hpp>

#include "../verbs/queues.hpp"
#include "handles.hpp"
#include "port.hpp"
#include "queue_pair_states.hpp"

namespace verbatim::rdma {

class VerbsCompletionQueue final : public CompletionQueueHandle {
  public:
    VerbsCompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                         CompletionChannelHandle* channel);
    const mlx5::CompletionQueueView& view() const noexcept override { return shown_.view(); }
    // What no poll has taken lies in two queues, and only one can be told to move it.
    [[noreturn]] void resize(std::uint32_t entries) override;
    ibv_cq* get() const noexcept { return queue_.get(); }
    verbs::CompletionTranslator& translator() noexcept { return shown_.translator(); }

  private:
    std::shared_ptr<Port> port_;
    verbs::CompletionQueue shown_;
    CqHandle queue_;
};

class VerbsSharedReceiveQueue final : public SharedReceiveQueueHandle {
  public:
    VerbsSharedReceiveQueue(std::shared_ptr<Port> port, const SharedReceiveQueueOptions& options);
    const mlx5::SharedReceiveQueueView& view() const noexcept override { return shown_.view(); }
    ibv_srq* get() const noexcept { return queue_.get(); }

  private:
    std::shared_ptr<Port> port_;
    verbs::SharedReceiveQueue shown_;
    SrqHandle queue_;
};

class VerbsQueuePair final : public QueuePairStates {
  public:
    VerbsQueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options);
    ~VerbsQueuePair() override { queue_.reset(); }  // before the memory it was posted from

    const mlx5::QueuePairView& view() const noexcept override { return shown_.view(); }
    void fail() noexcept override;
    void reset() override;

  private:
    void initialized() override { shown_.take_receives(); }
    void ready() override { shown_.take_requests(); }
    // Makes queue_; what the device gives is in the result.
    ibv_qp_cap make_queue(const QueuePairOptions& options);

    verbs::QueuePair shown_;
    RegionHandle ring_;  // the send buffer, as memory that the device reads
};

}  // namespace verbatim::rdma

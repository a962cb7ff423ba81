// Completion queues and queue pairs of a device with mlx5 queues, reduced to queue views.
#pragma once

#include <memory>

#include <verbatim/driver/device.hpp>

#include "handles.hpp"
#include "port.hpp"
#include "queue_pair_states.hpp"

namespace verbatim::rdma {

class CompletionChannel final : public CompletionChannelHandle {
  public:
    explicit CompletionChannel(std::shared_ptr<Port> port);
    int file() const noexcept override { return channel_->fd; }
    CompletionQueueHandle* take_event() override;
    ibv_comp_channel* get() const noexcept { return channel_.get(); }

  private:
    std::shared_ptr<Port> port_;
    ChannelHandle channel_;
};

class CompletionQueue final : public CompletionQueueHandle {
  public:
    CompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                    CompletionChannelHandle* channel);
    const mlx5::CompletionQueueView& view() const noexcept override { return view_; }
    // rdma-core moves entries from where its own polling stands, and it never polls.
    [[noreturn]] void resize(std::uint32_t entries) override;
    ibv_cq* get() const noexcept { return queue_.get(); }

  private:
    std::shared_ptr<Port> port_;
    CqHandle queue_;
    mlx5::CompletionQueueView view_;
};

class QueuePair final : public QueuePairStates {
  public:
    QueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options);
    ~QueuePair() override { queue_.reset(); }  // before its domains

    const mlx5::QueuePairView& view() const noexcept override { return view_; }

  private:
    void make_domain();
    void make_queue(const QueuePairOptions& options);
    void make_view(const QueuePairOptions& options);

    // A register of its own: posting takes no lock, so the doorbell page must not be shared.
    ThreadDomainHandle thread_domain_;
    DomainHandle parent_domain_;
    mlx5::QueuePairView view_;
};

}  // namespace verbatim::rdma

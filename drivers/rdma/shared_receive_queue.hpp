// A shared receive queue of a real device, reduced to a queue view.
#pragma once

#include <memory>

#include <verbatim/driver/device.hpp>

#include "handles.hpp"
#include "port.hpp"

namespace verbatim::rdma {

class SharedReceiveQueue final : public SharedReceiveQueueHandle {
  public:
    SharedReceiveQueue(std::shared_ptr<Port> port, const SharedReceiveQueueOptions& options);
    const mlx5::SharedReceiveQueueView& view() const noexcept override { return view_; }
    ibv_srq* get() const noexcept { return queue_.get(); }

  private:
    std::shared_ptr<Port> port_;
    SrqHandle queue_;
    mlx5::SharedReceiveQueueView view_;
};

}  // namespace verbatim::rdma

// A shared receive queue of the software NIC: its memory and the device's side of it. It must
// outlive the queue pairs that take from it.
#pragma once

#include <cstdint>

#include <verbatim/driver/device.hpp>

#include "../softqueue/queue_memory.hpp"
#include "../softqueue/shared_receive_list.hpp"

namespace verbatim::softnic {

class SharedReceiveQueue final : public SharedReceiveQueueHandle {
  public:
    SharedReceiveQueue(const SharedReceiveQueueOptions& options, std::uint32_t number)
        : memory_(options, number), list_(memory_.view()) {}

    const mlx5::SharedReceiveQueueView& view() const noexcept override { return memory_.view(); }
    SharedReceiveList& list() noexcept { return list_; }

  private:
    SharedReceiveQueueMemory memory_;
    SharedReceiveList list_;
};

}  // namespace verbatim::softnic

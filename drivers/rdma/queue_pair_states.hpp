// What all queue pairs of a real device have in common: rdma-core's object and its states. Who
// posts to it is the derived class's affair. Threads: any.
#pragma once

#include <memory>
#include <string>

#include <verbatim/driver/device.hpp>

#include "handles.hpp"
#include "port.hpp"

namespace verbatim::rdma {

class QueuePairStates : public QueuePairHandle {
  public:
    QueuePairAddress address() const override;
    void connect(const QueuePairAddress& peer, int timeout_ms) final;
    void fail() noexcept override;
    void reset() override;
    QueuePairState state() const noexcept override;
    // A device does not watch its peer: its silence shows as retry_exceeded.
    bool peer_lost() const noexcept override { return false; }
    bool data_in_order() const noexcept override;

  protected:
    QueuePairStates(std::shared_ptr<Port> port, const QueuePairOptions& options);

    // During connect(): receives may be posted; and requests.
    virtual void initialized() {}
    virtual void ready() {}
    // For error messages.
    std::string object() const;

    std::shared_ptr<Port> port_;
    QpHandle queue_;  // made by the derived class

  private:
    void to_initialized();
    void to_ready_to_receive(const QueuePairAddress& peer);
    void to_ready(const QueuePairAddress& peer);
    void modify(ibv_qp_attr& attributes, int mask, const char* target);

    GidEntry gid_;
    std::uint8_t not_ready_retries_;
    std::uint32_t first_packet_;
};

}  // namespace verbatim::rdma

// One port of DPDK, with a queue each way. Received frames stay where DPDK stored them until they
// are released, and frames to be sent are copied into its buffers: memory of the program is not
// known to DPDK. Threads: as EthernetDevice.
#pragma once

#include <cstdint>
#include <string>

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "../../../../softqueue/gate.hpp"
#include "failure.hpp"

namespace verbatim::softnic {

class DpdkDevice final : public EthernetDevice {
  public:
    // The EAL is set up. Throws EthernetProblem.
    explicit DpdkDevice(const EthernetSettings& settings);
    ~DpdkDevice() override;

    MacAddress mac() const noexcept override { return mac_; }
    std::size_t mtu() const noexcept override { return mtu_; }
    std::size_t receive(std::span<ReceivedFrame> frames) noexcept override;
    void release(std::span<void* const> owners) noexcept override;
    std::size_t send(std::span<const OutgoingFrame> frames) noexcept override;

  private:
    static constexpr std::size_t kBurst = 32;

    void need_unused() const;
    void find(const EthernetSettings& settings);
    void set_up(std::size_t mtu);
    void make_pool(std::size_t mtu);
    void start_queues();
    void read_facts();
    void hear_groups() noexcept;
    void close() noexcept;
    void transmit(std::span<rte_mbuf*> buffers) noexcept;
    void transmit_waiting() noexcept;
    [[noreturn]] void fail(const char* step, int cause, const char* remedy) const;

    const std::string name_;
    std::uint16_t port_ = 0;
    bool probed_ = false;   // by us: it ends with us
    bool started_ = false;  // likewise
    MacAddress mac_{};
    std::size_t mtu_ = 0;
    rte_mempool* pool_ = nullptr;
    Gate sending_;                 // around the device's queue of frames to send
    rte_ring* waiting_ = nullptr;  // frames of threads that found another one inside
};

}  // namespace verbatim::softnic

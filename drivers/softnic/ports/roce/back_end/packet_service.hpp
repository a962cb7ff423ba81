// What the udp ports of one device share: their time, and the faults of their packets. Control
// path; threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <verbatim/softnic/softnic.hpp>

#include "packet_back_end.hpp"

namespace verbatim::softnic {

class PacketService {
  public:
    explicit PacketService(const Options& options) noexcept
        : timeout_(options.packet_timeout), faults_(options.packet_faults) {}

    std::chrono::milliseconds timeout() const noexcept { return timeout_; }
    // The same back end, or one that makes faults. Throws std::bad_alloc.
    std::unique_ptr<PacketBackEnd> over(std::unique_ptr<PacketBackEnd> back_end);

  private:
    const std::chrono::milliseconds timeout_;
    const PacketFaults faults_;
    std::atomic<std::uint64_t> flows_{0};  // each has faults of its own
};

}  // namespace verbatim::softnic

// What the udp ports, or the dpdk ports, of one device share: their time, and the faults of their
// packets. Control path; threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include <verbatim/softnic/softnic.hpp>

#include "../../dpdk/ethernet_link.hpp"
#include "../../tcp/meeting/stream_socket.hpp"
#include "capture_file.hpp"
#include "packet_back_end.hpp"

namespace verbatim::softnic {

class PacketService {
  public:
    // Throws Error: the capture file cannot be written, or the dpdk port's device not be opened.
    explicit PacketService(const Options& options);

    std::chrono::milliseconds timeout() const noexcept { return timeout_; }
    // The same back end, or one that is captured, and makes faults. Throws std::bad_alloc.
    std::unique_ptr<PacketBackEnd> over(std::unique_ptr<PacketBackEnd> back_end,
                                        const StreamPlace& own, const StreamPlace& peer);
    // Null: nothing is captured.
    CaptureFile* capture() const noexcept { return capture_.get(); }
    // Of the dpdk port; null: packets go through sockets.
    const std::shared_ptr<EthernetLink>& link() const noexcept { return link_; }

  private:
    const std::chrono::milliseconds timeout_;
    const PacketFaults faults_;
    const std::shared_ptr<EthernetLink> link_;
    std::unique_ptr<CaptureFile> capture_;  // null: none
    std::atomic<std::uint64_t> flows_{0};   // each has faults of its own
};

}  // namespace verbatim::softnic

// Which back end a flow gets.
#include "packet_service.hpp"

#include <utility>

#include "captured_packets.hpp"
#include "faulty_packets.hpp"

namespace verbatim::softnic {

PacketService::PacketService(const Options& options)
    : timeout_(options.packets.timeout),
      faults_(options.packet_faults),
      link_(options.port == PortKind::dpdk ? EthernetLink::open(options.packets.dpdk) : nullptr) {
    const std::string& file = options.packets.capture;
    if (!file.empty()) capture_ = std::make_unique<CaptureFile>(file);
}

std::unique_ptr<PacketBackEnd> PacketService::over(std::unique_ptr<PacketBackEnd> back_end,
                                                   const StreamPlace& own,
                                                   const StreamPlace& peer) {
    if (capture_ != nullptr)
        back_end = std::make_unique<CapturedPackets>(std::move(back_end), *capture_, own, peer);
    if (!faults_.any()) return back_end;
    PacketFaults faults = faults_;
    faults.seed += flows_.fetch_add(1);
    return std::make_unique<FaultyPackets>(std::move(back_end), faults);
}

}  // namespace verbatim::softnic

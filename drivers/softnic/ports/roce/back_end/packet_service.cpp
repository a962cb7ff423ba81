// Which back end a flow gets.
#include "packet_service.hpp"

#include <utility>

#include "faulty_packets.hpp"

namespace verbatim::softnic {

std::unique_ptr<PacketBackEnd> PacketService::over(std::unique_ptr<PacketBackEnd> back_end) {
    if (faults_.lose + faults_.duplicate + faults_.swap + faults_.corrupt == 0) return back_end;
    PacketFaults faults = faults_;
    faults.seed += flows_.fetch_add(1);
    return std::make_unique<FaultyPackets>(std::move(back_end), faults);
}

}  // namespace verbatim::softnic

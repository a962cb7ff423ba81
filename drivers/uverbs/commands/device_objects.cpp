// A device file's objects come and go.
#include "device_objects.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "../tree/environment_size.hpp"
#include "../tree/port_mtu.hpp"

namespace verbatim::uverbs {
namespace {

// "trap" is the default; what cannot be done is not an error.
bool may_trap() {
    const char* const wanted = std::getenv(DeviceTree::kDoorbellsVariable);
    if (wanted == nullptr || std::string_view(wanted) == "trap") return true;
    if (std::string_view(wanted) == "nap") return false;
    throw Error(Errc::config_error, DeviceTree::kDoorbellsVariable,
                fmt::format("{} is not allowed", wanted), "it must be trap or nap");
}

void check_share(const char* text) {
    if (text == nullptr || std::string_view(text) == "0" || std::string_view(text) == "1") return;
    throw Error(Errc::config_error, DeviceTree::kShareVariable,
                fmt::format("{} is not allowed", text), "it must be 0 or 1");
}

softnic::DpdkOptions dpdk_options() {
    const auto text = [](const char* variable) {
        const char* const given = std::getenv(variable);
        return std::string(given == nullptr ? "" : given);
    };
    softnic::DpdkOptions options;
    options.device = text(DeviceTree::kPortVariable).substr(DeviceTree::kDpdkPrefix.size());
    options.address = text(DeviceTree::kAddressVariable);
    options.peer_mac = text(DeviceTree::kPeerMacVariable);
    if (options.address.empty())
        throw Error(
            Errc::config_error, "software NIC through DPDK", "it has no IP address",
            fmt::format("give one: softnic run --address, or {}", DeviceTree::kAddressVariable));
    options.mtu = frame_mtu();
    return options;
}

softnic::Options engine_options(const Identity& identity, const DeviceTraits& traits) {
    check_share(std::getenv(DeviceTree::kShareVariable));
    softnic::Options options;
    options.name = identity.name();
    // Programs post and poll by libmlx5; who executes is decided here.
    options.parked = true;
    options.big_endian_results = traits.big_endian_results;
    if (const char* const ring = std::getenv(DeviceTree::kRingVariable))
        options.ring_bytes = static_cast<std::size_t>(environment_size(
            DeviceTree::kRingVariable, ring, DeviceTree::allows_ring, DeviceTree::kAllowedRings));
    if (const char* const faults = std::getenv(DeviceTree::kFaultsVariable))
        options.faults = softnic::parse_faults(faults, DeviceTree::kFaultsVariable);
    if (const char* const faults = std::getenv(DeviceTree::kPacketFaultsVariable))
        options.packet_faults =
            softnic::parse_packet_faults(faults, DeviceTree::kPacketFaultsVariable);
    if (const char* const capture = std::getenv(DeviceTree::kCaptureVariable))
        options.packets.capture = capture;
    if (packet_way(identity.index) == PacketWay::dpdk) {
        options.port = softnic::PortKind::dpdk;
        options.packets.dpdk = dpdk_options();
    }
    return options;
}

}  // namespace

DeviceObjects::DeviceObjects(const Identity& identity, bool parked)
    : facts{identity,
            {},
            parked,
            port_mtu(packet_way(identity.index)),
            packet_way(identity.index) != PacketWay::none},
      registers(engine_thread),
      memory(registers.file()),
      engine_thread(may_trap() && !parked),
      core(std::make_shared<softnic::DeviceCore>(engine_options(identity, facts.firmware.traits()),
                                                 softnic::claim_slot(), engine_thread.bell())),
      connector(*core) {}

DeviceObjects::~DeviceObjects() {
    if (!core->inherited()) leave_xrc();
    // Else the program closes it.
    if (!context.made) close(context.async_events.programs_end());
}

void DeviceObjects::start_threads() {
    engine_thread.start();
    connector.start();
}

// Before anything that is shared with other device files goes.
void DeviceObjects::leave_xrc() noexcept {
    for (const auto& own : xrc.targets)
        if (const auto target = own.lock()) target->end();
    shared_queues.find_if([](SharedQueue& queue) { return queue.leave_xrc(), false; });
}

}  // namespace verbatim::uverbs

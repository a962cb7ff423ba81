// Which device a configuration means.
#include <verbatim/driver/log.hpp>
#include <verbatim/rdma/rdma.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "../connection/context_impl.hpp"
#include "dpdk_prefix.hpp"

namespace verbatim {
namespace {

softnic::PortKind port_kind(const std::string& wanted) {
    if (wanted.starts_with(kDpdkPrefix)) return softnic::PortKind::dpdk;
    if (wanted == "tcp") return softnic::PortKind::tcp;
    if (wanted == "udp") return softnic::PortKind::udp;
    return wanted == "shm" ? softnic::PortKind::shm : softnic::PortKind::automatic;
}

softnic::DpdkOptions dpdk_options(const Config::SoftnicSection& wanted) {
    if (!wanted.port.starts_with(kDpdkPrefix)) return {};
    return {.device = wanted.port.substr(kDpdkPrefix.size()),
            .host_eal = wanted.eal == "host",
            .address = wanted.dpdk_address,
            .peer_mac = wanted.dpdk_peer_mac,
            .mtu = wanted.dpdk_mtu};
}

std::unique_ptr<Device> open_software_nic(const Config& config) {
    const Config::DeviceSection& wanted = config.device;
    softnic::Options options;
    options.port = port_kind(config.softnic.port);
    options.packets.dpdk = dpdk_options(config.softnic);
    options.packets.capture = config.softnic.capture;
    options.packet_faults = softnic::parse_packet_faults(config.softnic.packet_faults,
                                                         "[device.softnic] packet_faults");
    options.strict_doorbells = wanted.strict_doorbells;
    options.same_user_only = wanted.same_user_only;
    options.faults = softnic::parse_faults(config.faults, "Config::faults");
    return softnic::open_device(options);
}

rdma::DataPath data_path(const std::string& wanted) {
    if (wanted == "mlx5") return rdma::DataPath::mlx5;
    return wanted == "verbs" ? rdma::DataPath::verbs : rdma::DataPath::automatic;
}

std::unique_ptr<Device> open_rdma_device(const Config& config) {
    const Config::DeviceSection& wanted = config.device;
    auto device = rdma::open_device({.name = wanted.name,
                                     .port = wanted.port,
                                     .gid_index = wanted.gid_index,
                                     .service_level = wanted.service_level,
                                     .traffic_class = wanted.traffic_class,
                                     .data_path = data_path(wanted.data_path)});
    // What was asked for must not silently stay away.
    if (!config.faults.empty())
        throw Error(Errc::config_error, "[[fault]]", "only the software NIC makes faults",
                    "set kind = \"softnic\" in [device], or leave the faults out");
    return device;
}

}  // namespace

std::unique_ptr<Device> open_configured_device(const Config& config) {
    if (config.device.kind == "softnic") return open_software_nic(config);
    if (config.device.kind == "rdma") return open_rdma_device(config);
    try {
        return open_rdma_device(config);
    } catch (const Error& error) {
        if (error.code() != Errc::no_device) throw;
        log::info("using the software NIC: {}", error.what());
        return open_software_nic(config);
    }
}

}  // namespace verbatim

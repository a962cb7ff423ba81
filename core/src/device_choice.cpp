// Which device a configuration means.
#include <verbatim/driver/log.hpp>
#include <verbatim/rdma/rdma.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "context_impl.hpp"

namespace verbatim {
namespace {

std::unique_ptr<Device> open_software_nic(const Config::DeviceSection& wanted) {
    softnic::Options options;
    options.strict_doorbells = wanted.strict_doorbells;
    options.same_user_only = wanted.same_user_only;
    return softnic::open_device(options);
}

rdma::DataPath data_path(const std::string& wanted) {
    if (wanted == "mlx5") return rdma::DataPath::mlx5;
    return wanted == "verbs" ? rdma::DataPath::verbs : rdma::DataPath::automatic;
}

std::unique_ptr<Device> open_rdma_device(const Config::DeviceSection& wanted) {
    return rdma::open_device({.name = wanted.name,
                              .port = wanted.port,
                              .gid_index = wanted.gid_index,
                              .data_path = data_path(wanted.data_path)});
}

}  // namespace

std::unique_ptr<Device> open_configured_device(const Config::DeviceSection& wanted) {
    if (wanted.kind == "softnic") return open_software_nic(wanted);
    if (wanted.kind == "rdma") return open_rdma_device(wanted);
    try {
        return open_rdma_device(wanted);
    } catch (const Error& error) {
        if (error.code() != Errc::no_device) throw;
        log::info("using the software NIC: {}", error.what());
        return open_software_nic(wanted);
    }
}

}  // namespace verbatim

// What every machine has: the software NIC by itself, and as a device of rdma-core, whose queues
// our driver writes by itself (mlx5), or has written by libmlx5 (verbs).
#include <verbatim/rdma/rdma.hpp>
#include <verbatim/softnic/softnic.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

std::unique_ptr<Device> open_through_rdma_core(rdma::DataPath path) {
    if (uverbs::sysfs_root() == nullptr) throw std::runtime_error("no tree for libibverbs");
    setenv("MLX5_DEBUG_FILE", "/dev/null", 1);  // libmlx5 prints each error completion
    return rdma::open_device({.name = "mlx5_0", .data_path = path});
}

std::unique_ptr<Device> open_with(softnic::PortKind port) {
    softnic::Options options;
    options.port = port;
    options.strict_doorbells = true;
    return softnic::open_device(options);
}

}  // namespace

std::vector<Backend> backends() {
    return {
        {"software_nic", [] { return softnic::open_device({.strict_doorbells = true}); }, true},
        {"software_nic_tcp", [] { return open_with(softnic::PortKind::tcp); }, true},
        {"software_nic_udp", [] { return open_with(softnic::PortKind::udp); }, true},
        {"mlx5_through_rdma_core", [] { return open_through_rdma_core(rdma::DataPath::mlx5); }},
        {"verbs_through_rdma_core", [] { return open_through_rdma_core(rdma::DataPath::verbs); }},
    };
}

}  // namespace verbatim::test

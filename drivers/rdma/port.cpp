// Finding and opening a device.
#include "port.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "device_events.hpp"
#include "messages.hpp"

namespace verbatim::rdma {
namespace {

GidKind kind_of(std::uint32_t gid_type) noexcept {
    if (gid_type == IBV_GID_TYPE_ROCE_V1) return GidKind::roce_v1;
    return gid_type == IBV_GID_TYPE_ROCE_V2 ? GidKind::roce_v2 : GidKind::infiniband;
}

std::vector<GidEntry> read_gids(const Port& port) {
    std::vector<ibv_gid_entry> raw(
        static_cast<std::size_t>(std::max(port.port_attributes.gid_tbl_len, 1)));
    const ssize_t count = ibv_query_gid_table(port.context.get(), raw.data(), raw.size(), 0);
    if (count < 0) throw call_error(port.name, "ibv_query_gid_table", static_cast<int>(-count));
    std::vector<GidEntry> table;
    for (const ibv_gid_entry& entry : std::span(raw).first(static_cast<std::size_t>(count))) {
        if (entry.port_num != port.number) continue;
        GidEntry& kept = table.emplace_back();
        kept.index = entry.gid_index;
        kept.kind = kind_of(entry.gid_type);
        std::copy_n(entry.gid.raw, kept.bytes.size(), kept.bytes.begin());
    }
    return table;
}

void pick_gid(Port& port) {
    const int wanted = port.options.gid_index;
    port.gids = read_gids(port);
    const auto gid = choose_gid(port.gids, {.index = wanted});
    if (!gid.has_value())
        throw Error(Errc::config_error, fmt::format("{} port {}", port.name, port.number),
                    wanted >= 0 ? fmt::format("it has no GID {}", wanted) : "it has no RoCE v2 GID",
                    wanted >= 0
                        ? "set device.gid_index to one that `ibv_devinfo -v` shows, or to -1"
                        : "give its network interface an IP address");
    port.gid = *gid;
    log::info("RDMA device {} port {}, GID {} ({})", port.name, port.number, gid->index,
              gid_text(gid->bytes));
}

// Opens the device if its port is active; else says why not. Before anything is opened, whether it
// has queues of the kind that is wanted.
std::unique_ptr<Port> try_open(ibv_device* device, int port_number, bool mlx5_queues,
                               std::string& reason) {
    if (mlx5_queues && !mlx5dv_is_supported(device)) {
        reason = "no mlx5 queues";
        return nullptr;
    }
    if (device->transport_type == IBV_TRANSPORT_IWARP) {
        reason = "iWARP, which connects through a connection manager only";
        return nullptr;
    }
    auto port = std::make_unique<Port>();
    port->mlx5_queues = mlx5_queues;
    port->name = ibv_get_device_name(device);
    port->number = static_cast<std::uint8_t>(port_number);
    port->context.reset(ibv_open_device(device));
    if (port->context == nullptr) {
        reason = fmt::format("cannot be opened: {}", std::strerror(errno));
        return nullptr;
    }
    if (ibv_query_device(port->context.get(), &port->attributes) != 0 || port_number < 1 ||
        port_number > port->attributes.phys_port_cnt ||
        ibv_query_port(port->context.get(), port->number, &port->port_attributes) != 0) {
        reason = fmt::format("has no port {}", port_number);
        return nullptr;
    }
    if (port->port_attributes.state != IBV_PORT_ACTIVE) {
        reason = fmt::format("port {} is {}", port_number,
                             ibv_port_state_str(port->port_attributes.state));
        return nullptr;
    }
    return port;
}

// The first device that will do; null: none, and `rejected` says why.
std::unique_ptr<Port> find_port(const DeviceList& devices, int count, const Options& options,
                                bool mlx5_queues, std::vector<Rejected>& rejected) {
    for (int i = 0; devices != nullptr && i < count; ++i) {
        ibv_device* const device = devices[static_cast<std::size_t>(i)];
        const std::string name = ibv_get_device_name(device);
        std::string reason = "another name";
        if (options.name.empty() || options.name == name)
            if (auto port = try_open(device, options.port, mlx5_queues, reason)) return port;
        rejected.push_back({name, reason});
    }
    return nullptr;
}

}  // namespace

void Port::check_own() const {
    if (is_inherited())
        throw Error(Errc::permission_denied, name,
                    "it is the parent's: a forked child cannot use it",
                    "open a device in the child");
}

std::unique_ptr<Port> open_port(const Options& options) {
    count_forks();
    int count = 0;
    const DeviceList devices(ibv_get_device_list(&count));
    const int list_errno = devices == nullptr ? errno : 0;
    std::vector<Rejected> rejected;
    std::unique_ptr<Port> port;
    if (options.data_path != DataPath::verbs)
        port = find_port(devices, count, options, true, rejected);
    if (port == nullptr && options.data_path != DataPath::mlx5) {
        rejected.clear();
        port = find_port(devices, count, options, false, rejected);
    }
    if (port == nullptr)
        throw no_device_error({options.name, options.port, options.data_path == DataPath::mlx5},
                              rejected, list_errno);
    port->domain.reset(ibv_alloc_pd(port->context.get()));
    if (port->domain == nullptr) throw call_error(port->name, "ibv_alloc_pd", errno);
    make_nonblocking(*port);
    port->options = options;
    pick_gid(*port);
    const bool verbs_atomics = port->attributes.atomic_cap != IBV_ATOMIC_NONE;
    port->atomics = port->mlx5_queues ? query_atomics(port->context.get(), verbs_atomics)
                                      : AtomicSupport{.plain = verbs_atomics};
    return port;
}

}  // namespace verbatim::rdma

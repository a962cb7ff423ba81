// RDMA devices, their ports and GIDs; the libraries that drive them.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <verbatim/driver/gid.hpp>
#include <verbatim/rdma/gid_choice.hpp>

#include "doctor_checks.hpp"
#include "doctor_files.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;
using verbatim::rdma::GidEntry;
using verbatim::rdma::GidKind;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

// A place of the table without a GID holds zeros.
bool holds_gid(const std::array<std::uint8_t, 16>& bytes) {
    return std::any_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte != 0; });
}

GidKind kind_of(const std::string& type) {
    if (type.find("v2") != std::string::npos) return GidKind::roce_v2;
    return type.find("RoCE") != std::string::npos ? GidKind::roce_v1 : GidKind::infiniband;
}

std::vector<GidEntry> gids_of(const fs::path& port) {
    std::vector<GidEntry> table;
    for (const fs::path& file : sorted_entries(port / "gids")) {
        const auto gid = verbatim::parse_gid(line_of(file));
        if (!gid || !holds_gid(*gid)) continue;
        GidEntry entry;
        entry.bytes = *gid;
        entry.index = static_cast<std::uint32_t>(std::stoul(file.filename().string()));
        entry.kind = kind_of(line_of(port / "gid_attrs/types" / file.filename()));
        table.push_back(entry);
    }
    return table;
}

// "4: ACTIVE".
bool is_active(const fs::path& port) {
    return line_of(port / "state").find("ACTIVE") != std::string::npos;
}

Finding of_port(const fs::path& device, const fs::path& port) {
    Finding finding{"device", State::ok, Breaks::fast_path, {}, {}, {}};
    const std::string name =
        fmt::format("{} port {}", device.filename().string(), port.filename().string());
    const auto gid = choose_gid(gids_of(port), {});
    finding.why = "connections over this port need it to be up and to have an address";
    if (!is_active(port)) {
        finding.state = State::missing;
        finding.found = fmt::format("{} is down ({})", name, line_of(port / "state"));
        finding.remedy = fmt::format("rdma link show {}; sudo ip link set <its interface> up",
                                     device.filename().string());
    } else if (!gid) {
        finding.state = State::missing;
        finding.found = fmt::format("{} is active and has no GID that reaches anything", name);
        finding.remedy = "sudo ip address add <address>/24 dev <its interface>";
    } else {
        finding.found = fmt::format("{} is active; GID index {}: {}", name, gid->index,
                                    verbatim::rdma::gid_text(gid->bytes));
    }
    return finding;
}

std::vector<Finding> devices(const fs::path& root) {
    std::vector<Finding> found;
    for (const fs::path& device : sorted_entries(root / "sys/class/infiniband"))
        for (const fs::path& port : sorted_entries(device / "ports"))
            found.push_back(of_port(device, port));
    if (found.empty())
        found.push_back({"device", State::missing, Breaks::fast_path, "no RDMA device",
                         "without one the software NIC serves, between processes of this machine",
                         "sudo modprobe mlx5_ib, where the machine has a ConnectX"});
    // One port that works is enough.
    const bool any = std::any_of(found.begin(), found.end(),
                                 [](const Finding& finding) { return finding.state == State::ok; });
    if (any)
        for (Finding& finding : found)
            if (finding.state == State::missing) finding.state = State::limited;
    return found;
}

// Of one interface of the device: RoCE packets of 4096 bytes need some 60 bytes more for their
// headers.
Finding of_interface(const fs::path& device, const fs::path& interface) {
    constexpr std::int64_t kWanted = 4200;
    const std::int64_t bytes = number_of(interface / "mtu").value_or(0);
    const std::string name = interface.filename().string();
    return {"mtu",
            bytes >= kWanted ? State::ok : State::limited,
            Breaks::nothing,
            fmt::format("{} of {}: {} bytes", name, device.filename().string(), bytes),
            "packets carry 4096 bytes where interfaces and switches allow them, else 1024 or less",
            fmt::format("sudo ip link set {} mtu 9000, here, at the peer and at the switch", name)};
}

// Rings are polled in memory. Firmware of a ConnectX can promise the order of bytes which that
// needs.
Finding of_data_order(const fs::path& device) {
    const std::string name = device.filename().string();
    std::error_code none;
    const std::string driver = fs::read_symlink(device / "device/driver", none).filename().string();
    const bool asked = driver == "mlx5_core";
    return {
        "data-order",
        asked ? State::ok : State::limited,
        Breaks::nothing,
        asked ? fmt::format("the firmware of {} is asked for each connection", name)
              : fmt::format("the driver of {} ({}) cannot promise it", name,
                            driver.empty() ? "unknown" : driver),
        "a connection is refused where bytes of a write may become visible out of order",
        "set assume_in_order = true in [device], if adaptive routing and relaxed ordering are off"};
}

std::vector<Finding> limits_of_devices(const fs::path& root) {
    std::vector<Finding> found;
    for (const fs::path& device : sorted_entries(root / "sys/class/infiniband")) {
        for (const fs::path& interface : sorted_entries(device / "device/net"))
            found.push_back(of_interface(device, interface));
        found.push_back(of_data_order(device));
    }
    return found;
}

// The software NIC's own limit.
Finding reach() {
    return {
        "reach",
        State::limited,
        Breaks::nothing,
        fmt::format("shared memory for processes of this machine and of user {}; UDP or TCP for "
                    "all others",
                    geteuid()),
        "a message by UDP or TCP takes microseconds, by shared memory a tenth of one",
        "use an RDMA device between machines; run both ends as one user"};
}

// The version in the name of the file that the library was loaded from.
std::string version_of(const char* library) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    link_map* map = nullptr;
    std::error_code none;
    std::string version;
    if (handle != nullptr && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        version = fs::canonical(map->l_name, none).filename().string();
    if (handle != nullptr) dlclose(handle);
    const auto place = version.find(".so.");
    return place == std::string::npos ? version : version.substr(place + 4);
}

Finding library(const char* name, const char* file, const char* why, const char* package) {
    const std::string version = version_of(file);
    return {name,
            version.empty() ? State::limited : State::ok,
            Breaks::nothing,
            version.empty() ? fmt::format("{} is not here", file) : version,
            why,
            fmt::format("sudo apt-get install {}", package)};
}

}  // namespace

std::vector<Finding> look_at_devices(const fs::path& root) {
    std::vector<Finding> found = devices(root);
    std::ranges::move(limits_of_devices(root), std::back_inserter(found));
    found.push_back(reach());
    found.push_back(library("rdma-core", "libibverbs.so.1",
                            "RDMA devices are opened through it; libverbatim.so needs it",
                            "libibverbs1 ibverbs-providers"));
    const std::string dpdk = version_of("librte_eal.so.23");
    found.push_back({"dpdk",
                     State::ok,
                     Breaks::nothing,
                     dpdk.empty() ? "is not here" : dpdk,
                     "nothing uses it yet",
                     {}});
    return found;
}

}  // namespace cli

// The files of the tree, as libibverbs, libmlx5 and the tools read them.
#include "sysfs_tree.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::uverbs {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream out(file);
    out << text << '\n';
    if (!out.flush()) throw fs::filesystem_error("cannot write", file, {});
}

std::string in_words(const unsigned char* bytes, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; i += 2)
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
    return text;
}

// Link-local and IPv4-mapped addresses of the loopback, each as RoCE v1 and v2.
std::string gid(int index) {
    std::array<unsigned char, 16> bytes{};
    if (index < 2) {
        bytes[0] = 0xfe, bytes[1] = 0x80;
        std::copy(std::begin(Identity::kGuid), std::end(Identity::kGuid), bytes.begin() + 8);
    } else {
        bytes[10] = bytes[11] = 0xff, bytes[12] = 127, bytes[15] = 1;
    }
    return in_words(bytes.data(), bytes.size());
}

void put_port(const fs::path& port) {
    put(port / "state", "4: ACTIVE");
    put(port / "phys_state", "5: LinkUp");
    put(port / "rate", "100 Gb/sec (4X EDR)");
    put(port / "link_layer", "Ethernet");
    put(port / "lid", "0x0");
    put(port / "pkeys/0", "0xffff");
    for (int i = 0; i < Identity::kGids; ++i) {
        const std::string number = std::to_string(i);
        put(port / "gids" / number, gid(i));
        put(port / "gid_attrs/types" / number, i % 2 == 0 ? "IB/RoCE v1" : "RoCE v2");
        put(port / "gid_attrs/ndevs" / number, "lo");
    }
}

void put_pci(const fs::path& device) {
    put(device / "modalias",
        fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd00000020bc02sc07i00", Identity::kPciVendor,
                    Identity::kPciDevice, Identity::kPciVendor));
    put(device / "vendor", fmt::format("{:#06x}", Identity::kPciVendor));
    put(device / "device", fmt::format("{:#06x}", Identity::kPciDevice));
    put(device / "numa_node", "-1");
    put(device / "local_cpus", "ff");
}

void fill(const fs::path& root) {
    const fs::path verbs = root / "class/infiniband_verbs";
    put(verbs / "abi_version", "6");
    put(verbs / Identity::kNode / "ibdev", Identity::kName);
    put(verbs / Identity::kNode / "dev", fmt::format("{}:{}", Identity::kMajor, Identity::kMinor));
    put(verbs / Identity::kNode / "abi_version", "1");
    put_pci(verbs / Identity::kNode / "device");
    const fs::path device = root / "class/infiniband" / Identity::kName;
    put(device / "node_type", "1: CA");
    put(device / "node_guid", in_words(Identity::kGuid, sizeof Identity::kGuid));
    put(device / "sys_image_guid", in_words(Identity::kGuid, sizeof Identity::kGuid));
    put(device / "node_desc", "Verbatim software NIC");
    put(device / "fw_ver", Identity::kFirmware);
    put(device / "hca_type", "MT4121");
    put(device / "board_id", Identity::kBoard);
    put(device / "hw_rev", "0");
    put_pci(device / "device");
    put_port(device / "ports/1");
}

}  // namespace

SysfsTree::SysfsTree() : maker_(getpid()) {
    try {
        std::string pattern = (fs::temp_directory_path() / "verbatim-sysfs.XXXXXX").string();
        if (mkdtemp(pattern.data()) == nullptr)
            throw fs::filesystem_error("cannot make", pattern, {});
        root_ = pattern;
        fill(root_);
    } catch (const fs::filesystem_error& error) {
        throw Error(Errc::device_error, "software NIC under rdma-core",
                    fmt::format("its /sys tree: {}", error.what()),
                    "let $TMPDIR name a directory that can be written");
    }
}

SysfsTree::~SysfsTree() {
    std::error_code ignored;
    if (getpid() == maker_) fs::remove_all(root_, ignored);
}

}  // namespace verbatim::uverbs

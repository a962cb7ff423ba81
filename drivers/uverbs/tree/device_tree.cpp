// The files of the tree, as libibverbs, libmlx5 and the tools read them.
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "identity.hpp"
#include "tree_lock.hpp"

namespace verbatim::uverbs {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, std::string_view text) {
    fs::create_directories(file.parent_path());
    std::ofstream out(file);
    out << text << '\n';
    if (!out.flush()) throw fs::filesystem_error("cannot write", file, {});
}

template <class Bytes>
std::string in_words(const Bytes& bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 2)
        text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
    return text;
}

void put_port(const Identity& identity, const fs::path& port) {
    put(port / "state", "4: ACTIVE");
    put(port / "phys_state", "5: LinkUp");
    put(port / "rate", "100 Gb/sec (4X EDR)");
    put(port / "link_layer", "Ethernet");
    for (const char* const number : {"lid", "sm_lid", "sm_sl", "lid_mask_count"})
        put(port / number, "0x0");
    put(port / "cap_mask", "0x04010000");
    put(port / "pkeys/0", "0xffff");
    for (int i = 0; i < Identity::kGids; ++i) {
        const std::string number = std::to_string(i);
        put(port / "gids" / number, in_words(identity.gid(i)));
        put(port / "gid_attrs/types" / number,
            Identity::first_version(i) ? "IB/RoCE v1" : "RoCE v2");
        put(port / "gid_attrs/ndevs" / number, Identity::kInterface);
    }
}

// A mask of the machine's processors, as /sys has them: words of 32, the highest first.
std::string processors() {
    const long count = std::max(1L, sysconf(_SC_NPROCESSORS_CONF));
    std::string text;
    for (long first = 0; first < count; first += 32) {
        const long here = std::min(32L, count - first);
        const std::uint64_t mask = (std::uint64_t{1} << here) - 1;
        text = fmt::format("{:x}{}{}", mask, first == 0 ? "" : ",", text);
    }
    return text;
}

void put_pci(const fs::path& device) {
    put(device / "modalias",
        fmt::format("pci:v{:08X}d{:08X}sv{:08X}sd00000020bc02sc07i00", Identity::kPciVendor,
                    Identity::kPciDevice, Identity::kPciVendor));
    put(device / "vendor", fmt::format("{:#06x}", Identity::kPciVendor));
    put(device / "device", fmt::format("{:#06x}", Identity::kPciDevice));
    put(device / "class", "0x020700");
    put(device / "current_link_speed", "16.0 GT/s PCIe");
    put(device / "current_link_width", "16");
    put(device / "numa_node", "-1");
    put(device / "local_cpus", processors());
}

void link(const fs::path& name, const fs::path& target) {
    fs::create_directories(name.parent_path());
    fs::create_directory_symlink(target.lexically_relative(name.parent_path()), name);
}

// As in the real one: what a device is lies at its place on the PCI bus, and the classes have links
// to it. Programs tell from the place which devices are near each other.
void put_device(const Identity& identity, const fs::path& root) {
    const fs::path pci = root.string() + Identity::kPciRoot + "/" + identity.pci_name();
    put_pci(pci);
    link(root / "bus/pci/devices" / identity.pci_name(), pci);
    const fs::path node = pci / "infiniband_verbs" / identity.node();
    put(node / "ibdev", identity.name());
    put(node / "dev", fmt::format("{}:{}", Identity::kMajor, identity.minor_number()));
    put(node / "abi_version", "1");
    // By name, which is what programs take from the link.
    const fs::path back = fs::path("../../..") / identity.pci_name();
    fs::create_directory_symlink(back, node / "device");
    link(root / "class/infiniband_verbs" / identity.node(), node);
    const fs::path device = pci / "infiniband" / identity.name();
    put(device / "node_type", "1: CA");
    put(device / "node_guid", in_words(identity.guid()));
    put(device / "sys_image_guid", in_words(identity.guid()));
    put(device / "node_desc", "Verbatim software NIC");
    put(device / "fw_ver", Identity::kFirmware);
    put(device / "hca_type", "MT4121");
    put(device / "board_id", Identity::kBoard);
    put(device / "hw_rev", "0");
    fs::create_directory_symlink(back, device / "device");
    link(root / "class/infiniband" / identity.name(), device);
    put_port(identity, device / "ports/1");
}

constexpr const char* kPrefix = "verbatim-sysfs.";

// A tree that nobody holds was left by a program that was killed. A young one may belong to a
// program that is just about to lock it.
bool abandoned(const fs::path& tree) {
    constexpr time_t kYoungSeconds = 60;
    struct stat facts {};
    if (lstat(tree.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() ||
        facts.st_mtime + kYoungSeconds > time(nullptr))
        return false;
    return TreeLock::unused(tree);
}

void remove_abandoned(const fs::path& directory) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(directory, ignored))
        if (entry.path().filename().string().starts_with(kPrefix) && abandoned(entry.path()))
            fs::remove_all(entry.path(), ignored);
}

}  // namespace

DeviceTree::DeviceTree(int devices) : maker_(getpid()) {
    if (devices < 1 || devices > kMaxDevices)
        throw Error(Errc::invalid_argument, "software NIC under rdma-core",
                    fmt::format("{} devices", devices),
                    fmt::format("ask for 1 to {}", kMaxDevices));
    try {
        const fs::path place = fs::canonical(fs::temp_directory_path());
        remove_abandoned(place);
        std::string pattern = (place / kPrefix).string() + "XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr)
            throw fs::filesystem_error("cannot make", pattern, {});
        root_ = pattern;
        // To be read by the user that the program becomes, like /sys.
        fs::permissions(root_, fs::perms(0755));
        put(fs::path(root_) / TreeLock::kFile, "held by the programs that use this tree");
        lock_ = std::make_unique<TreeLock>(root_);
        put(fs::path(root_) / "class/infiniband_verbs/abi_version", "6");
        put(fs::path(root_) / "class/misc/rdma_cm/abi_version", "4");
        put(fs::path(root_) / "class/infiniband_mad/abi_version", "5");
        for (int i = 0; i < devices; ++i) put_device(Identity{i}, root_);
    } catch (const fs::filesystem_error& error) {
        throw Error(Errc::device_error, "software NIC under rdma-core",
                    fmt::format("its /sys tree: {}", error.what()),
                    "let $TMPDIR name a directory that can be written");
    }
}

DeviceTree::~DeviceTree() {
    if (getpid() != maker_) return;
    lock_.reset();
    // Else the last of those that use it leaves it, and the next one that makes a tree removes it.
    std::error_code ignored;
    if (TreeLock::unused(root_)) fs::remove_all(root_, ignored);
}

}  // namespace verbatim::uverbs

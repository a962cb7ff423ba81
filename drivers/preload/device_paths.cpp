// The tree, and the way into it and back.
// With it the C library's headers would turn stat into another.
#undef _FILE_OFFSET_BITS
#include "device_paths.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "../rdmacm/files/open_channels.hpp"
#include "../uverbs/tree/identity.hpp"
#include "../uverbs/tree/tree_lock.hpp"

namespace verbatim::uverbs {
namespace {

constexpr std::string_view kSystem = "/sys";

int wanted_devices() noexcept {
    const char* const text = std::getenv(DeviceTree::kDevicesVariable);
    return text == nullptr ? 1 : std::atoi(text);
}

const std::string* find_tree() noexcept {
    try {
        static const char* const given = std::getenv(DeviceTree::kVariable);
        static const std::optional<DeviceTree> own =
            given == nullptr ? std::make_optional<DeviceTree>(wanted_devices()) : std::nullopt;
        // Never destroyed: files are opened until the very end.
        static const auto* const root =
            new std::string(given == nullptr ? own->root() : std::string(given));
        // Never released: the maker of the tree may end before this process.
        static const TreeLock* const held = given == nullptr ? nullptr : new TreeLock(*root);
        static_cast<void>(held);
        setenv("SYSFS_PATH", root->c_str(), 1);
        return root;
    } catch (const std::exception& error) {
        log::error("{}", error.what());
        return nullptr;
    }
}
const std::string* const g_tree = find_tree();

// Behind "/sys": the directories of the class, whether or not the kernel has devices of its own,
// and the places on the PCI bus that only our devices have.
bool redirected(std::string_view path) noexcept {
    constexpr std::string_view kClasses[] = {"/class/infiniband", "/class/infiniband_verbs",
                                             "/class/infiniband_mad", "/class/misc/rdma_cm"};
    for (const std::string_view name : kClasses)
        if (path.starts_with(name) && (path.size() == name.size() || path[name.size()] == '/'))
            return true;
    return path.starts_with(Identity::kPciRoot) || path.starts_with(Identity::kPciDevices);
}

}  // namespace

const std::string* tree_root() noexcept { return g_tree; }

std::optional<unsigned> device_at(const char* path) noexcept {
    constexpr std::string_view kPath = Identity::kDevicePath;
    if (g_tree == nullptr || path == nullptr) return std::nullopt;
    if (std::strcmp(path, rdmacm::kDevicePath) == 0) return Identity::kManagerMinor;
    if (std::strncmp(path, kPath.data(), kPath.size()) != 0) return std::nullopt;
    const std::string_view number = path + kPath.size();
    int index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index < 0 ||
        index >= DeviceTree::kMaxDevices)
        return std::nullopt;
    std::array<char, PATH_MAX> node;
    const auto text = fmt::format_to_n(node.data(), node.size() - 1,
                                       "{}/class/infiniband_verbs/uverbs{}", *g_tree, index);
    *text.out = '\0';
    if (access(node.data(), F_OK) != 0) return std::nullopt;
    return Identity{index}.minor_number();
}

void describe_device(unsigned minor_number, struct stat* facts) noexcept {
    *facts = {};
    facts->st_mode = S_IFCHR | 0666;
    facts->st_rdev = makedev(Identity::kMajor, minor_number);
    facts->st_nlink = 1;
}

SystemPath::SystemPath(const char* path) noexcept : path_(path) {
    if (g_tree == nullptr || path == nullptr ||
        std::strncmp(path, kSystem.data(), kSystem.size()) != 0)
        return;
    const std::string_view below = path + kSystem.size();
    if (!redirected(below) || g_tree->size() + below.size() >= buffer_.size()) return;
    char* const end = std::copy(g_tree->begin(), g_tree->end(), buffer_.begin());
    *std::copy(below.begin(), below.end(), end) = '\0';
    path_ = buffer_.data();
}

char* as_system_path(char* resolved) noexcept {
    if (g_tree == nullptr || resolved == nullptr) return resolved;
    const std::string_view path = resolved;
    if (!path.starts_with(*g_tree) || !redirected(path.substr(g_tree->size()))) return resolved;
    if (g_tree->size() < kSystem.size()) return resolved;  // there is no room for it
    const std::size_t below = path.size() - g_tree->size();
    std::memmove(resolved + kSystem.size(), resolved + g_tree->size(), below + 1);
    std::memcpy(resolved, kSystem.data(), kSystem.size());
    return resolved;
}

}  // namespace verbatim::uverbs

// Reads the tree that libibverbs reads, so that both say the same.
#include "device_gid.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include <verbatim/driver/gid.hpp>
#include <verbatim/uverbs/device_tree.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "../uverbs/tree/identity.hpp"

namespace verbatim::rdmacm {
namespace {

std::string port_of(int device) {
    const char* const root = uverbs::sysfs_root();
    return fmt::format("{}/class/infiniband/{}/ports/1", root == nullptr ? "" : root,
                       uverbs::Identity{device}.name());
}

bool exists(int device) {
    std::error_code ignored;
    return device < uverbs::DeviceTree::kMaxDevices &&
           std::filesystem::exists(port_of(device), ignored);
}

std::string line_of(const std::string& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    return line;
}

std::array<std::uint8_t, 16> gid_form(const Endpoint& endpoint) {
    if (endpoint.family != AF_INET) return endpoint.address;
    std::array<std::uint8_t, 16> bytes{};
    bytes[10] = bytes[11] = 0xff;
    std::copy_n(endpoint.address.begin(), 4, bytes.begin() + 12);
    return bytes;
}

}  // namespace

int device_of(const Endpoint& endpoint) noexcept try {
    if (endpoint.family != AF_INET || endpoint.address[0] != 127 || endpoint.address[1] != 0 ||
        endpoint.address[2] != 0 || endpoint.address[3] == 0)
        return 0;
    const int device = endpoint.address[3] - 1;
    return exists(device) ? device : 0;
} catch (const std::exception&) {
    return 0;
}

DeviceGid gid_of(int device, const Endpoint& endpoint) noexcept try {
    const std::string port = port_of(device);
    DeviceGid found;
    for (int i = 0; i < uverbs::Identity::kGids; ++i) {
        const auto bytes = parse_gid(line_of(fmt::format("{}/gids/{}", port, i)));
        if (!bytes || line_of(fmt::format("{}/gid_attrs/types/{}", port, i)) != "RoCE v2") continue;
        found = {*bytes, static_cast<std::uint8_t>(i)};
        if (*bytes == gid_form(endpoint)) break;
    }
    return found;
} catch (const std::exception&) {
    return {};
}

}  // namespace verbatim::rdmacm

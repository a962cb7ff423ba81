// Reads /sys/class/infiniband/<device>/ports/<port>/.
#include "port_counters.hpp"

#include <filesystem>
#include <fstream>

namespace cli {

std::map<std::string, std::uint64_t> port_counters(const std::string& root,
                                                   const std::string& device, std::uint64_t port) {
    std::map<std::string, std::uint64_t> found;
    // The name comes from a segment, which is not trusted.
    if (device.empty() || device.find('/') != std::string::npos || device[0] == '.') return found;
    const std::filesystem::path base =
        std::filesystem::path(root) / device / "ports" / std::to_string(port);
    for (const char* const kind : {"counters", "hw_counters"}) {
        std::error_code error;
        for (std::filesystem::directory_iterator at(base / kind, error), end; !error && at != end;
             at.increment(error)) {
            std::uint64_t value = 0;
            if (std::ifstream file(at->path()); file >> value)
                found.emplace(at->path().filename().string(), value);
        }
    }
    return found;
}

}  // namespace cli

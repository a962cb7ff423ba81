#include "memory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace verbatim::bench {
namespace {

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process) + "/"; }

// The number behind a name in a file of "Name:  number kB" lines.
double kib_in(const std::string& path, std::string_view name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name)) return std::stod(line.substr(name.size()));
    throw std::runtime_error(path + " has no " + std::string(name));
}

double lines_of(const std::string& path) {
    std::ifstream file(path);
    return static_cast<double>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

// Counts the memory files among the descriptors, each once.
void count_files(pid_t process, std::set<ino_t>& seen, MemoryCount& count) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_of(process) + "fd")) {
        ++count.descriptors;
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
        struct stat status {};
        if (!target.starts_with("/memfd:") || stat(entry.path().c_str(), &status) != 0) continue;
        if (seen.insert(status.st_ino).second)
            count.files += static_cast<double>(status.st_blocks) * 512 / 1024;
    }
}

}  // namespace

MemoryCount count_memory(std::span<const pid_t> processes) {
    MemoryCount count;
    std::set<ino_t> seen;
    for (const pid_t process : processes) {
        const std::string folder = folder_of(process);
        count.pages += kib_in(folder + "smaps_rollup", "Pss_Anon:") +
                       kib_in(folder + "smaps_rollup", "Pss_File:");
        count.tables += kib_in(folder + "status", "VmPTE:");
        count.mappings += lines_of(folder + "maps");
        count_files(process, seen, count);
    }
    count.slab = kib_in("/proc/meminfo", "Slab:") + kib_in("/proc/meminfo", "KernelStack:");
    return count;
}

}  // namespace verbatim::bench

// Reads /proc and /sys; a file that is missing or odd means "no limit known".
#include "system_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace verbatim::system_memory {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> parse(std::string_view text) {
    const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + begin, text.data() + text.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    return std::getline(file, line) ? parse(line) : std::nullopt;
}

// The number after `key` in a file of "key value" lines.
std::optional<std::uint64_t> number_after(const std::string& path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) return parse(std::string_view(line).substr(key.size()));
    return std::nullopt;
}

struct GroupFiles {
    std::string root;
    const char *limit, *usage, *reclaimable_key;
};

// The least headroom of a control group and its ancestors. Inactive page cache counts as free.
std::uint64_t group_headroom(const GroupFiles& files, std::string group) {
    std::uint64_t least = kNoLimit;
    while (true) {
        const std::string folder = files.root + (group == "/" ? "" : group) + "/";
        const auto limit = number_in(folder + files.limit), usage = number_in(folder + files.usage);
        if (limit && usage) {
            const auto cache =
                number_after(folder + "memory.stat", files.reclaimable_key).value_or(0);
            const std::uint64_t used = *usage - std::min(*usage, cache);
            least = std::min(least, *limit - std::min(*limit, used));
        }
        if (group.empty() || group == "/") return least;
        group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
}

std::uint64_t all_groups_headroom() {
    std::ifstream file("/proc/self/cgroup");  // "0::/path" is version 2, "4:memory:/path" version 1
    std::uint64_t least = kNoLimit;
    for (std::string line; std::getline(file, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string group = line.substr(second + 1);
        if (controllers.empty())
            least = std::min(least, group_headroom({"/sys/fs/cgroup", "memory.max",
                                                    "memory.current", "inactive_file "},
                                                   group));
        else if (controllers == "memory")
            least =
                std::min(least, group_headroom({"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                                "memory.usage_in_bytes", "total_inactive_file "},
                                               group));
    }
    return least;
}

}  // namespace

std::uint64_t available_bytes() {
    const auto kib = number_after("/proc/meminfo", "MemAvailable:");
    return std::min(kib ? *kib * 1024 : kNoLimit, all_groups_headroom());
}

HugePages huge_pages(std::size_t page_bytes) {
    const std::string folder =
        fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/", page_bytes / 1024);
    const auto free = number_in(folder + "free_hugepages").value_or(0);
    const auto promised = number_in(folder + "resv_hugepages").value_or(0);
    return {number_in(folder + "nr_hugepages").value_or(0), free - std::min(free, promised)};
}

std::string huge_page_advice(std::size_t page_bytes, std::uint64_t wanted) {
    const HugePages pool = huge_pages(page_bytes);
    const std::uint64_t total = pool.total + wanted - std::min(wanted, pool.free);
    const std::string have = fmt::format("hugepages: wanted {}, free {}; run: ", wanted, pool.free);
    if (page_bytes == std::size_t{2} << 20)
        return have + fmt::format("sysctl -w vm.nr_hugepages={}", total);
    return have + fmt::format("echo {} > /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
                              total, page_bytes / 1024);
}

std::string memlock_limit() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit.rlim_cur);
}

}  // namespace verbatim::system_memory

// Reads /proc and /sys; a file that is missing or odd means "no limit known".
#include "system_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace verbatim::system_memory {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> parse(std::string_view text, int base = 10) {
    const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + begin, text.data() + text.size(), value, base);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    return std::getline(file, line) ? parse(line) : std::nullopt;
}

// The number after `key` in a file of "key value" lines.
std::optional<std::uint64_t> number_after(const std::string& path, std::string_view key,
                                          int base = 10) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key)) return parse(std::string_view(line).substr(key.size()), base);
    return std::nullopt;
}

struct GroupFiles {
    std::string root, limit, usage;
    const char* reclaimable_key = nullptr;  // of memory.stat; null: nothing is reclaimed
};

// The least headroom of a control group and its ancestors. Inactive page cache counts as free.
std::uint64_t group_headroom(const GroupFiles& files, std::string group) {
    std::uint64_t least = kNoLimit;
    while (true) {
        const std::string folder = files.root + (group == "/" ? "" : group) + "/";
        const auto limit = number_in(folder + files.limit), usage = number_in(folder + files.usage);
        if (limit && usage) {
            const auto cache =
                files.reclaimable_key == nullptr
                    ? 0
                    : number_after(folder + "memory.stat", files.reclaimable_key).value_or(0);
            const std::uint64_t used = *usage - std::min(*usage, cache);
            least = std::min(least, *limit - std::min(*limit, used));
        }
        if (group.empty() || group == "/") return least;
        group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
}

// Of the groups of this process: those of version 2, and of one controller of version 1.
std::uint64_t all_groups_headroom(const std::string& root, std::string_view controller,
                                  const std::vector<GroupFiles>& unified, const GroupFiles& own) {
    // "0::/path" is version 2, "4:memory:/path" version 1
    std::ifstream file(root + "/proc/self/cgroup");
    std::uint64_t least = kNoLimit;
    for (std::string line; std::getline(file, line);) {
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string group = line.substr(second + 1);
        if (controllers == controller) least = std::min(least, group_headroom(own, group));
        if (!controllers.empty()) continue;
        for (const GroupFiles& files : unified)
            least = std::min(least, group_headroom(files, group));
    }
    return least;
}

std::uint64_t memory_headroom() {
    return all_groups_headroom(
        "", "memory", {{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "}},
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file "});
}

// "hugetlb.2MB" or "hugetlb.1GB", of which the files' names begin.
std::string group_pages(std::size_t page_bytes) {
    return page_bytes == std::size_t{1} << 30 ? "hugetlb.1GB" : "hugetlb.2MB";
}

// A reservation is charged by mmap(), a page when it is touched.
std::uint64_t huge_headroom(std::size_t page_bytes, const std::string& root) {
    const std::string pages = group_pages(page_bytes), groups = root + "/sys/fs/cgroup";
    return all_groups_headroom(
        root, "hugetlb",
        {{groups, pages + ".max", pages + ".current"},
         {groups, pages + ".rsvd.max", pages + ".rsvd.current"}},
        {groups + "/hugetlb", pages + ".limit_in_bytes", pages + ".usage_in_bytes"});
}

}  // namespace

std::uint64_t available_bytes() {
    const auto kib = number_after("/proc/meminfo", "MemAvailable:");
    return std::min(kib ? *kib * 1024 : kNoLimit, memory_headroom());
}

bool can_take(std::uint64_t bytes) {
    constexpr std::uint64_t kKeepFree = std::uint64_t{64} << 20;
    constexpr std::chrono::milliseconds kValid{100};
    using Clock = std::chrono::steady_clock;
    static std::atomic<Clock::duration> valid_until{};
    static std::atomic<std::uint64_t> granted{0};
    const auto now = Clock::now().time_since_epoch();
    if (now < valid_until.load(std::memory_order_acquire))
        for (std::uint64_t left = granted.load(std::memory_order_relaxed); left >= bytes;)
            if (granted.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed))
                return true;
    const std::uint64_t available = available_bytes();
    if (available < kKeepFree || available - kKeepFree < bytes) return false;
    granted.store((available - kKeepFree - bytes) / 4, std::memory_order_relaxed);
    valid_until.store(now + kValid, std::memory_order_release);
    return true;
}

HugePages huge_pages(std::size_t page_bytes, const std::string& root) {
    const std::string folder =
        fmt::format("{}/sys/kernel/mm/hugepages/hugepages-{}kB/", root, page_bytes / 1024);
    const auto free = number_in(folder + "free_hugepages").value_or(0);
    const auto promised = number_in(folder + "resv_hugepages").value_or(0);
    const std::uint64_t pool = free - std::min(free, promised);
    if (pool == 0) return {number_in(folder + "nr_hugepages").value_or(0), 0, false};
    const std::uint64_t group = huge_headroom(page_bytes, root) / page_bytes;
    return {number_in(folder + "nr_hugepages").value_or(0), std::min(pool, group), group < pool};
}

std::string huge_page_advice(std::size_t page_bytes, std::uint64_t wanted,
                             const std::string& root) {
    const HugePages pool = huge_pages(page_bytes, root);
    if (pool.group_limits)
        return fmt::format(
            "hugepages: wanted {}, the control group allows {} more; raise {}.max of the group",
            wanted, pool.free, group_pages(page_bytes));
    const std::uint64_t total = pool.total + wanted - std::min(wanted, pool.free);
    const std::string have = fmt::format("hugepages: wanted {}, free {}; run: ", wanted, pool.free);
    if (page_bytes == std::size_t{2} << 20)
        return have + fmt::format("sysctl -w vm.nr_hugepages={}", total);
    return have + fmt::format("echo {} > /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages",
                              total, page_bytes / 1024);
}

std::uint64_t lockable_bytes() {
    constexpr std::uint64_t kLockCapability = std::uint64_t{1} << 14;  // CAP_IPC_LOCK
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
    const auto rights = number_after("/proc/self/status", "CapEff:", 16).value_or(0);
    return (rights & kLockCapability) != 0 ? kNoLimit : limit.rlim_cur;
}

std::string memlock_limit() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit.rlim_cur);
}

}  // namespace verbatim::system_memory

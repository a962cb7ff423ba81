// Cores by number and by NUMA node.
#include "placement.hpp"

#include <pthread.h>

#include <charconv>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <verbatim/driver/error.hpp>

namespace verbatim::placement {
namespace {

Cores own_cores() {
    Cores own;
    CPU_ZERO(&own);
    (void)sched_getaffinity(0, sizeof own, &own);
    return own;
}

Cores of_node(int node, const std::string& object) {
    std::ifstream file(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    std::string list;
    if (!std::getline(file, list))
        throw Error(Errc::config_error, object, fmt::format("there is no NUMA node {}", node),
                    "see the nodes with: numactl --hardware; or set numa_node = -1");
    return parse_list(list, object);
}

// Takes a number off the front.
bool take_number(std::string_view& text, unsigned& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc() && number < CPU_SETSIZE;
}

bool take(std::string_view& text, char wanted) {
    if (text.empty() || text.front() != wanted) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

Cores parse_list(const std::string& list, const std::string& object) {
    Cores cores;
    CPU_ZERO(&cores);
    std::string_view rest = list;
    do {
        unsigned first = 0, last = 0;
        bool valid = take_number(rest, first);
        last = first;
        if (take(rest, '-')) valid = valid && take_number(rest, last);
        if (!valid || last < first)
            throw Error(Errc::config_error, object, fmt::format("\"{}\" is no list of cores", list),
                        "report it, please");
        for (unsigned core = first; core <= last; ++core) CPU_SET(core, &cores);
    } while (take(rest, ','));
    return cores;
}

Cores cores_of(const Config::PollerSection& section) {
    const std::string object = "[[poller]] " + section.name;
    Cores cores = own_cores();
    if (section.numa_node >= 0) {
        const Cores node = of_node(section.numa_node, object);
        CPU_AND(&cores, &cores, &node);
    }
    if (section.core >= 0) {
        Cores core;
        CPU_ZERO(&core);
        if (section.core < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(section.core), &core);
        CPU_AND(&cores, &cores, &core);
    }
    if (CPU_COUNT(&cores) == 0)
        throw Error(Errc::config_error, object,
                    fmt::format("this process may not run on core {} of NUMA node {}", section.core,
                                section.numa_node),
                    "choose a core that `taskset -p $$` shows, or -1 for any");
    return cores;
}

void pin(std::thread& thread, const Cores& cores) {
    if (pthread_setaffinity_np(thread.native_handle(), sizeof cores, &cores) != 0)
        throw Error(Errc::config_error, "poller", "the kernel does not pin its thread",
                    "allow sched_setaffinity(2) where the process is confined");
}

}  // namespace verbatim::placement

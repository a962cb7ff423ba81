// Set-up of the EAL, in a thread of its own: DPDK binds the calling thread to one processor.
#include "eal.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>

namespace verbatim::softnic {
namespace {

using Arguments = std::vector<std::string>;

// One processor that this process may use.
std::string first_processor() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    std::size_t first = 0;
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &allowed)) ++first;
    return std::to_string(first);
}

bool is_virtual(const std::string& device) {
    return device.rfind("net_", 0) == 0 || device.rfind("eth_", 0) == 0;
}

bool names_processors(const Arguments& given) {
    for (const std::string& one : given)
        if (one == "-l" || one == "-c" || one.rfind("--lcores", 0) == 0) return true;
    return false;
}

// Without arguments of the user: ordinary pages, no device of the PCI bus that was not named. In
// any case several processes do without files that they share, and without a socket for telemetry.
Arguments eal_arguments(const EthernetSettings& settings) {
    std::istringstream words(settings.arguments);
    Arguments given;
    for (std::string word; words >> word;) given.push_back(word);
    const std::string device = settings.device;
    Arguments all{"verbatim", "--no-telemetry", "--no-shconf",
                  "--file-prefix=verbatim" + std::to_string(getpid()), "--log-level=*:error"};
    if (given.empty()) all.insert(all.end(), {"--no-huge", "-m", "128"});
    if (!names_processors(given)) all.push_back("--lcores=0@" + first_processor());
    if (is_virtual(device))
        all.push_back("--no-pci");
    else
        all.insert(all.end(), {"-a", device});
    all.insert(all.end(), given.begin(), given.end());
    return all;
}

struct EalStart {
    Arguments arguments;
    int result = -1;
    int cause = 0;
};

void* start_eal(void* context) {
    auto& start = *static_cast<EalStart*>(context);
    std::vector<char*> words;
    for (std::string& word : start.arguments) words.push_back(word.data());
    start.result = rte_eal_init(static_cast<int>(words.size()), words.data());
    start.cause = rte_errno;
    return nullptr;
}

// The threads that DPDK starts inherit the mask: they take no signals of the program.
void run_start(EalStart& start) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int refused = pthread_create(&thread, nullptr, start_eal, &start);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0)
        throw EthernetProblem{"DPDK", rte_strerror(refused),
                              "raise the limit of processes (ulimit -u)"};
    pthread_join(thread, nullptr);
}

bool is_set_up() noexcept { return rte_lcore_count() != 0; }

}  // namespace

void need_eal(const EthernetSettings& settings) {
    static std::mutex mutex;
    static bool failed = false;
    static pid_t owner = 0;  // as this library has seen it first
    const std::lock_guard lock(mutex);
    if (owner == 0) owner = getpid();
    if (owner != getpid())
        throw EthernetProblem{"DPDK", "this process is a fork() of one that has it",
                              "let the child exec() a program, or fork before DPDK is used"};
    if (settings.host && !is_set_up())
        throw EthernetProblem{"DPDK",
                              "eal is \"host\", but this program has not called rte_eal_init()",
                              "call it before, or set [device.softnic] eal = \"own\""};
    if (settings.host || is_set_up()) return;
    if (failed)
        throw EthernetProblem{"DPDK", "its environment could not be set up before",
                              "start the program again: DPDK tries once in a process"};
    EalStart start{eal_arguments(settings)};
    run_start(start);
    if (start.result >= 0) return;
    failed = true;
    std::string said;
    for (const std::string& word : start.arguments) said += ' ' + word;
    throw EthernetProblem{
        "DPDK",
        std::string("rte_eal_init: ") + rte_strerror(start.cause) + " (arguments:" + said + ")",
        "correct the EAL's arguments behind the device in [device.softnic] port"};
}

}  // namespace verbatim::softnic

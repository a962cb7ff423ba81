// Children, their cores and their socket of memif.
#include "two_processes.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>

#include "../support/cores.hpp"

namespace verbatim::bench {
namespace {

pid_t start_side(DpdkPage& page, bool first, const std::string& socket,
                 const std::function<void(DpdkSide&)>& work) {
    const pid_t child = fork();
    if (child != 0) return child;
    try {
        pin_to(first ? 0 : 1);
        // A client of memif that finds no server gives up.
        while (!first && access(socket.c_str(), F_OK) != 0 && !page.stop.load()) usleep(1000);
        const char* const role = first ? "server" : "client";
        DpdkSide side{
            page, first,
            std::string("net_memif0,role=") + role + ",socket=" + socket + ",socket-abstract=no"};
        work(side);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_dpdk: %s\n", error.what());
        _exit(1);
    }
    _exit(0);
}

}  // namespace

bool Steps::add() {
    const auto now = std::chrono::steady_clock::now();
    samples_.push_back(std::chrono::duration<double, std::micro>(now - last_).count());
    last_ = now;
    return samples_.size() != kMost;
}

double Steps::median() {
    const auto middle = samples_.begin() + static_cast<std::ptrdiff_t>(samples_.size() / 2);
    std::nth_element(samples_.begin(), middle, samples_.end());
    return *middle;
}

double run_in_two_processes(const std::function<void(DpdkSide&)>& work) {
    void* const memory =
        mmap(nullptr, sizeof(DpdkPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared page");
    auto* const page = new (memory) DpdkPage;
    char directory[] = "/tmp/verbatim-bench.XXXXXX";
    if (mkdtemp(directory) == nullptr) throw std::runtime_error("no directory in /tmp");
    const std::string socket = std::string(directory) + "/memif";
    start_side(*page, true, socket, work);
    start_side(*page, false, socket, work);
    bool good = true;
    for (int i = 0; i < 2; ++i) {
        int status = 0;
        wait(&status);
        good &= status == 0;
        if (status != 0) page->stop.store(true);
    }
    unlink(socket.c_str());
    rmdir(directory);
    const double result = page->result;
    munmap(memory, sizeof(DpdkPage));
    if (!good) throw std::runtime_error("a side failed");
    return result;
}

}  // namespace verbatim::bench

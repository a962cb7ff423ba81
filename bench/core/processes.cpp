#include "processes.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>

namespace verbatim::bench {
namespace {

using Steady = std::chrono::steady_clock;

void prepare(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);          // it died before
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // the sides copy from each other's memory
    dup2(STDERR_FILENO, STDOUT_FILENO);         // the table is alone on standard output
}

std::string ending(int status) {
    if (WIFSIGNALED(status)) return std::string("killed by ") + strsignal(WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) return "ended with " + std::to_string(WEXITSTATUS(status));
    return {};
}

}  // namespace

void raise_file_limit() noexcept {
    constexpr rlim_t kPlenty = 1 << 20;
    rlimit limit{kPlenty, kPlenty};  // root may
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

ProcessPair::ProcessPair(const std::function<void(unsigned side)>& body) {
    for (const unsigned side : {0u, 1u}) start(side, body);
}

void ProcessPair::start(unsigned side, const std::function<void(unsigned side)>& body) {
    const pid_t parent = getpid(), process = fork();
    if (process < 0) throw std::runtime_error("fork failed");
    if (process == 0) {
        prepare(parent);
        body(side);
        _exit(1);
    }
    const auto file = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    children_[side] = {process, file};
    if (file < 0) throw std::runtime_error("pidfd_open failed");
}

ProcessPair::~ProcessPair() {
    for (const Child& child : children_) {
        if (child.process <= 0) continue;
        kill(child.process, SIGKILL);
        waitpid(child.process, nullptr, 0);
        close(child.file);
    }
}

std::string ProcessPair::reap(unsigned side) {
    int status = 0;
    waitpid(children_[side].process, &status, 0);
    close(children_[side].file);
    children_[side] = {};
    return ending(status);
}

std::string ProcessPair::wait(std::chrono::milliseconds limit) {
    const auto end = Steady::now() + limit;
    while (children_[0].process > 0 || children_[1].process > 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Steady::now());
        std::array<pollfd, 2> files{
            {{children_[0].file, POLLIN, 0}, {children_[1].file, POLLIN, 0}}};
        if (left.count() <= 0 || poll(files.data(), 2, static_cast<int>(left.count())) == 0)
            return "not done after " + std::to_string(limit.count()) + " ms";
        for (const unsigned side : {0u, 1u}) {
            if (files[side].revents == 0) continue;
            if (const std::string wrong = reap(side); !wrong.empty()) return wrong;
        }
    }
    return {};
}

}  // namespace verbatim::bench

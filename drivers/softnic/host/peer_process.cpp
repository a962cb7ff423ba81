// Process descriptors, and start times from /proc.
#include "peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbatim::softnic {
namespace {

// Field 22 of /proc/<number>/stat; the name before it may hold anything but ends with the last
// parenthesis. 0: not known.
std::uint64_t start_of(pid_t number) noexcept {
    std::array<char, 32> path;
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(number));
    const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    std::array<char, 1024> text;
    const ssize_t got = read(file, text.data(), text.size() - 1);
    close(file);
    if (got <= 0) return 0;
    text[static_cast<std::size_t>(got)] = '\0';
    const char* at = std::strrchr(text.data(), ')');
    constexpr int kFieldsBetween = 20;
    for (int i = 0; at != nullptr && i < kFieldsBetween; ++i) at = std::strchr(at + 1, ' ');
    return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

// All threads of the process have ended. A leader that ended before the others does not count.
bool all_ended(int process) noexcept {
    pollfd entry{process, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
}

}  // namespace

PeerProcess::PeerProcess(pid_t number) noexcept
    : number_(number), started_(number > 0 ? start_of(number) : 0) {}

bool PeerProcess::ended() const noexcept {
    if (number_ <= 0) return false;
    const int process = static_cast<int>(syscall(SYS_pidfd_open, number_, 0));
    if (process < 0) return errno == ESRCH;
    const bool ended = all_ended(process) ||
                       (started_ != 0 && start_of(number_) != 0 && start_of(number_) != started_);
    close(process);
    return ended;
}

}  // namespace verbatim::softnic

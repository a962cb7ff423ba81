// Numbers that select() cannot hold.
#include "descriptor.hpp"

#include <fcntl.h>
#include <sys/select.h>
#include <unistd.h>

namespace verbatim::softnic {

int out_of_the_way(int fd) noexcept {
    if (fd < 0) return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);
    if (moved < 0) return fd;
    ::close(fd);
    return moved;
}

}  // namespace verbatim::softnic

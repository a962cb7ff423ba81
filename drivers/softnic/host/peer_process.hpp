// Another process, known by number and start time, so that its end can be told from another one's
// life. Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace verbatim::softnic {

class PeerProcess {
  public:
    // `number`: from a socket's credentials, of a process that lives. 0: of another pid namespace,
    // whose end nobody here can see.
    explicit PeerProcess(pid_t number) noexcept;

    pid_t number() const noexcept { return number_; }
    // True once no thread of it runs any more. False too where that cannot be known. A few system
    // calls.
    bool ended() const noexcept;

  private:
    pid_t number_;
    std::uint64_t started_;  // in the kernel's ticks, 0: not known
};

}  // namespace verbatim::softnic

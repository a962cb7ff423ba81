// Two child processes that are waited for together: none outlives the other or this one.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>

namespace verbatim::bench {

// As far as the system allows: connections have several descriptors each.
void raise_file_limit() noexcept;

class ProcessPair {
  public:
    // Forks side 0 and side 1, which run `body` and must not return from it.
    explicit ProcessPair(const std::function<void(unsigned side)>& body);
    ~ProcessPair();  // kills what still runs
    ProcessPair(const ProcessPair&) = delete;
    ProcessPair& operator=(const ProcessPair&) = delete;

    // Waits for both. Returns what went wrong, empty if both ended with 0. Once one of them fails,
    // the other is killed.
    std::string wait(std::chrono::milliseconds limit);

  private:
    struct Child {
        pid_t process = -1;
        int file = -1;  // becomes readable when it ends
    };
    void start(unsigned side, const std::function<void(unsigned side)>& body);
    std::string reap(unsigned side);

    std::array<Child, 2> children_;
};

}  // namespace verbatim::bench

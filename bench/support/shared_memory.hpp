// Memory that a process shares with those it forks: populated, zeroed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace verbatim::bench {

class SharedMemory {
  public:
    explicit SharedMemory(std::size_t bytes)
        : bytes_(bytes),
          start_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
        if (start_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~SharedMemory() { munmap(start_, bytes_); }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    void* start() const noexcept { return start_; }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    std::size_t bytes_;
    void* start_;
};

}  // namespace verbatim::bench

// Two processes, each pinned to a core of its own, that talk through a page they share. The second
// is forked before either has a context, so that each opens its own device. Threads: one each.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "../support/cores.hpp"
#include "../support/shared_memory.hpp"

namespace verbatim::bench {

// Shared by both processes. Each member has a line of its own.
struct SharedPage {
    alignas(64) std::atomic<std::uint64_t> ping{0};  // owner: the first process
    alignas(64) std::atomic<std::uint64_t> pong{0};  // owner: the second
    alignas(64) std::atomic<std::uint64_t> both{0};  // written by turns
    alignas(64) std::atomic<std::uint32_t> port{0};  // of the first process's listener
};

inline constexpr std::uint64_t kStop = ~std::uint64_t{0};

// The second process: runs `body` on core 1 and ends. The maker moves to core 0.
class SecondProcess {
  public:
    using Body = void (*)(SharedPage&);
    explicit SecondProcess(Body body);
    SecondProcess(const SecondProcess&) = delete;
    SecondProcess& operator=(const SecondProcess&) = delete;
    ~SecondProcess();  // kills it if it has not been waited for

    SharedPage& page() noexcept { return *page_; }
    pid_t process() const noexcept { return child_; }
    // Throws std::runtime_error if it failed.
    void wait();

  private:
    SharedMemory memory_{sizeof(SharedPage)};
    SharedPage* page_;
    pid_t child_ = -1;
};

// Times of round trips, in ticks of the time stamp counter.
class RoundTrips {
  public:
    explicit RoundTrips(std::size_t expected) { ticks_.reserve(expected); }
    void add(std::uint64_t ticks) { ticks_.push_back(ticks); }
    bool empty() const noexcept { return ticks_.empty(); }
    // Half of the median round trip.
    double one_way_microseconds();

  private:
    std::vector<std::uint64_t> ticks_;
};

}  // namespace verbatim::bench

// Two processes that run one measurement, each pinned to a core. The one that started them never
// sets up DPDK, so that a program may measure several times.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace verbatim::bench {

// Shared by both.
struct DpdkPage {
    std::atomic<std::uint32_t> port{0};  // where the first one listens
    std::atomic<bool> stop{false};
    double result = 0;
};

// Times of equal steps, in microseconds. Their median leaves out steps in which a process did not
// run.
class Steps {
  public:
    Steps() { samples_.reserve(kMost); }

    // Ends a step. False: there are enough.
    bool add();
    double median();

  private:
    static constexpr std::size_t kMost = 50000;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
    std::vector<double> samples_;
};

struct DpdkSide {
    DpdkPage& page;
    bool first;
    std::string device;  // of memif, with its role
};

// The result that the first side stored. Throws std::runtime_error: a side failed.
double run_in_two_processes(const std::function<void(DpdkSide&)>& work);

}  // namespace verbatim::bench

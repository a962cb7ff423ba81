// One pass of one subject, in two processes of its own.
#pragma once

#include <array>
#include <string>

#include "../support/shared_memory.hpp"
#include "meeting.hpp"
#include "subject.hpp"

namespace verbatim::bench {

// Results of a pass. Times are microseconds of one way, exact ranks of all samples.
struct Figures {
    std::string error;  // empty: the rest counts
    std::size_t samples = 0;
    double p50 = 0, p99 = 0, p99_9 = 0, p99_99 = 0, max = 0;
    // Below a microsecond the median of the means of 32 successive samples, which is finer than the
    // counter's step; else p50.
    double fine = 0;
    double per_second = 0;  // messages, bytes or connections
    std::array<double, kAmounts> amounts{};
};

class Runner {
  public:
    explicit Runner(double microseconds);  // of measuring, in each pass of each subject
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    Figures run(const Subject& subject);

  private:
    static constexpr std::size_t kMaxSamples = std::size_t{1} << 20;
    std::string run_processes(const Subject& subject);
    [[noreturn]] void run_side(const Subject& subject, unsigned index);
    std::string sayings() const;
    std::span<std::uint64_t> samples() const noexcept;
    Figures of_latency();
    Figures of_rate(const Case& of) const;
    Figures of_amounts() const;

    double microseconds_;
    SharedMemory memory_{sizeof(MeetingPage)}, sample_memory_{kMaxSamples * sizeof(std::uint64_t)};
    MeetingPage* page_;
};

}  // namespace verbatim::bench

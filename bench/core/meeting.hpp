// A meeting of the two processes that run one subject: addresses change hands, results go back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace verbatim::bench {

// Figures that a case counts itself, at most.
inline constexpr std::size_t kAmounts = 6;

// Shared by both processes and the one that started them.
struct MeetingPage {
    struct Saying {
        std::atomic<std::uint64_t> round{0};
        std::size_t bytes = 0;
        std::array<char, 8192> text;
    };
    // Of each side. The next round's saying has another place: the peer may still read this one.
    std::array<std::array<Saying, 2>, 2> said;
    std::array<std::array<char, 512>, 2> error{};  // of each side, as C strings
    std::array<int, 2> bells{-1, -1};              // eventfds, each rung by its side
    alignas(64) std::array<std::uint64_t, 8> first_word{};
    alignas(64) std::array<std::uint64_t, 8> second_word{};
    std::size_t samples = 0;  // the first side's results
    double per_second = 0;
    std::array<double, kAmounts> amounts{};
};

// What one process knows of the meeting.
class Side {
  public:
    Side(MeetingPage& page, unsigned index, std::span<std::uint64_t> samples, double microseconds);

    bool first() const noexcept { return index_ == 0; }
    MeetingPage& page() noexcept { return page_; }
    // Gives text to the peer and returns the peer's. Both call it, in the same order.
    std::string exchange(std::string_view mine) {
        return exchange(mine, [] {});
    }
    // The same; calls `progress` while it waits.
    template <class Progress>
    std::string exchange(std::string_view mine, Progress progress) {
        say(mine);
        const Waiting waiting;
        while (!heard()) {
            progress();
            waiting.check();
        }
        return peer_text();
    }

    // Room for samples, in ticks; the caller has touched none of it.
    std::span<std::uint64_t> samples() noexcept { return samples_; }
    std::uint64_t budget_ticks() const noexcept { return budget_ticks_; }
    void report_samples(std::size_t count) noexcept { page_.samples = count; }
    void report_rate(double per_second) noexcept { page_.per_second = per_second; }
    // In the order of the case's measures.
    void report_amount(std::size_t index, double value) noexcept { page_.amounts[index] = value; }

  private:
    // Throws std::runtime_error when a peer has been silent for too long.
    class Waiting {
      public:
        Waiting();
        void check() const;

      private:
        std::uint64_t limit_;
    };
    void say(std::string_view mine);
    bool heard() const noexcept;
    std::string peer_text() const;

    MeetingPage& page_;
    unsigned index_;
    std::uint64_t round_ = 0;
    std::span<std::uint64_t> samples_;
    std::uint64_t budget_ticks_;
};

}  // namespace verbatim::bench

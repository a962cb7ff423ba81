// Records that were handed out and not yet given back, in the order of the ring. They come back in
// any order; the ring's space is free up to the first one that is still held. Threads: the lane's.
// Data path.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace verbatim {

class HeldRecords {
  public:
    static constexpr std::uint32_t kMost = 64;

    bool full() const noexcept { return held_ == ~std::uint64_t{0}; }
    bool empty() const noexcept { return held_ == 0; }
    std::uint32_t count() const noexcept {
        return static_cast<std::uint32_t>(std::popcount(held_));
    }

    // A record that starts at this position, behind all others; not when full. Returns its number.
    std::uint32_t add(std::uint64_t start) noexcept {
        if (held_ == 0) [[likely]] {
            held_ = 1;
            starts_[0] = start;
            before_[0] = after_[0] = kNone;
            before_[kNone] = after_[kNone] = 0;
            return 0;
        }
        const auto number = static_cast<std::uint32_t>(__builtin_ctzll(~held_));
        const std::uint8_t newest = before_[kNone];
        held_ |= std::uint64_t{1} << number;
        starts_[number] = start;
        before_[number] = newest;
        after_[number] = kNone;
        after_[newest] = before_[kNone] = static_cast<std::uint8_t>(number);
        return number;
    }
    // The position up to which everything was given back; `end`: that of the last record.
    std::uint64_t give_back(std::uint32_t number, std::uint64_t end) noexcept {
        held_ &= ~(std::uint64_t{1} << number);
        if (held_ == 0) [[likely]]
            return end;  // add() makes the links anew
        after_[before_[number]] = after_[number];
        before_[after_[number]] = before_[number];
        return starts_[after_[kNone]];
    }

  private:
    static constexpr std::uint8_t kNone = kMost;  // behind the newest and before the oldest one

    std::uint64_t held_ = 0;  // a bit for each number
    std::array<std::uint64_t, kMost> starts_{};
    std::array<std::uint8_t, kMost + 1> before_{}, after_{};  // numbers, while any are held
};

}  // namespace verbatim

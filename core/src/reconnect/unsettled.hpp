// Unsettled messages are those that a connection has accepted and its peer may not have taken.
// Their end positions in the ring are kept in a bounded list. Where it is full, messages share a
// place, so that fewer than true are known as taken, never more. Threads: one. No allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim {

class Unsettled {
  public:
    static constexpr std::size_t kMost = 256;
    // Where the position of a message is not known yet.
    static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

    // The next message ends at `position`; those whose position was unknown end there at most.
    void accept(std::uint64_t position) noexcept {
        ++accepted_;
        if (count_ != 0 && (count_ == kMost || last().position == kUnknown))
            last() = {position, accepted_};
        else
            places_[(first_ + count_++) % kMost] = {position, accepted_};
    }
    // All that has been accepted ends at `position` at most.
    void resolve(std::uint64_t position) noexcept {
        if (count_ != 0 && last().position == kUnknown) last().position = position;
    }
    // The peer has taken everything before `position`.
    void take(std::uint64_t position) noexcept {
        for (; count_ != 0 && places_[first_].position <= position; --count_) {
            settled_ = places_[first_].accepted;
            first_ = (first_ + 1) % kMost;
        }
    }
    // The connection has ended: nothing is in doubt any more, as it was told.
    void clear() noexcept {
        settled_ = accepted_;
        first_ = count_ = 0;
    }
    std::uint64_t accepted() const noexcept { return accepted_; }
    std::uint64_t settled() const noexcept { return settled_; }

  private:
    struct Place {
        std::uint64_t position = 0, accepted = 0;  // messages up to and with it
    };
    Place& last() noexcept { return places_[(first_ + count_ - 1) % kMost]; }

    std::array<Place, kMost> places_;
    std::size_t first_ = 0, count_ = 0;
    std::uint64_t accepted_ = 0, settled_ = 0;
};

}  // namespace verbatim

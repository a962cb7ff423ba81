// What a work request carries through verbs (wr_id) and its completion brings back: which entry of
// which queue it was, in which of that queue's lives. A device may still deliver completions of
// before a reset; by their life they are told from those of now. No memory behind it is looked at
// that could be gone. Threads: any.
#pragma once

#include <cstdint>

namespace verbatim::verbs {

// Of one request. In wr_id: [63] receive, [62:48] slot and [47:32] generation of the life, [24]
// refused, [23:16] opcode as in its WQE, [15:0] counter of its first block, or number of its entry.
struct Tag {
    bool receive = false;
    bool refused = false;  // stands for a request that the device did not take
    std::uint8_t opcode = 0;
    std::uint16_t counter = 0;

    constexpr std::uint64_t bits() const noexcept {
        return std::uint64_t{receive} << 63 | std::uint64_t{refused} << 24 |
               std::uint64_t{opcode} << 16 | counter;
    }
    static constexpr Tag of(std::uint64_t bits) noexcept {
        return {(bits >> 63) != 0, (bits >> 24 & 1) != 0, static_cast<std::uint8_t>(bits >> 16),
                static_cast<std::uint16_t>(bits)};
    }
};

// A queue's life, from its creation or reset to the next.
class Life {
  public:
    // Throws Error(out_of_memory) where this process has 32768 queues.
    Life();
    ~Life();
    Life(const Life&) = delete;
    Life& operator=(const Life&) = delete;

    // The next life: what belonged to this one is not current() any more.
    void renew() noexcept;
    // For tags: slot and generation at their places.
    std::uint64_t bits() const noexcept { return bits_; }
    // Whether the queue that made this tag is still in that life.
    static bool current(std::uint64_t tag) noexcept;

  private:
    void read() noexcept;

    std::uint32_t slot_;
    std::uint64_t bits_ = 0;
};

}  // namespace verbatim::verbs

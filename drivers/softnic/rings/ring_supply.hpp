// The supply of rings of one device: their slabs, and which of them are long. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "channel_slab.hpp"

namespace verbatim::softnic {

// Of rings whose length is not configured. A short ring holds a hundred small messages. A long one
// takes a message of 64 KiB in one turn of a side that sleeps meanwhile.
inline constexpr std::size_t kShortRing = 4096, kLongRing = 65536;
inline constexpr std::uint32_t kLongRings = 16;

class RingSupply {
  public:
    // `configured`: the length of every ring; 0: see above.
    explicit RingSupply(std::size_t configured) noexcept : configured_(configured) {}

    ChannelSlabs& slabs() noexcept { return slabs_; }
    std::size_t configured() const noexcept { return configured_; }
    // The length of another ring, which may be short if it carries no messages; and when it goes.
    std::size_t take_bytes(bool carries_messages) noexcept {
        if (configured_ != 0) return configured_;
        if (!carries_messages) return kShortRing;
        if (long_rings_.fetch_add(1) < kLongRings) return kLongRing;
        long_rings_.fetch_sub(1);
        return kShortRing;
    }
    void give_back_bytes(std::size_t bytes) noexcept {
        if (configured_ == 0 && bytes == kLongRing) long_rings_.fetch_sub(1);
    }

  private:
    const std::size_t configured_;
    ChannelSlabs slabs_;
    std::atomic<std::uint32_t> long_rings_{0};  // in use
};

}  // namespace verbatim::softnic

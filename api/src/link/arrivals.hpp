// The arrivals of a connection, in the order of their graphs. One stays until its sender says no
// more of it and a receiver has taken it. Threads: the lane's.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "arrival.hpp"

namespace verbatim::objects {

class Arrivals {
  public:
    // The next graph that a sender speaks of. Throws Breach: it is another one.
    Arrival& add(std::uint64_t id, std::uint64_t fingerprint);
    // It is streamed. Throws Breach: too many are.
    void note_begun(Arrival& arrival);
    // It waits for a receiver, whole or refused.
    void note_whole(Arrival& arrival) noexcept;
    // Its sender says no more of it.
    void set_over(Arrival& arrival) noexcept;
    // A streamed one that is not over. Throws Breach: there is none.
    Arrival& open(std::uint64_t id);
    std::span<Arrival* const> open() const noexcept { return open_; }

    // The next graph of a channel that no other receiver has; it is `taker`'s until unclaim().
    Arrival* claim(std::uint16_t channel, const void* taker) noexcept;
    void unclaim(Arrival& arrival) noexcept;
    // The receiver has taken the graph, or its error.
    void finish(Arrival& arrival) noexcept;
    // That claim() would find; null: none.
    const Arrival* next(std::uint16_t channel) const noexcept;
    bool has_next(std::uint16_t channel) const noexcept { return next(channel) != nullptr; }
    // Some receiver, or one to come, has something to do.
    bool have_news() const noexcept;
    // A graph of the channel, or its error, can be taken at once.
    bool is_readable(std::uint16_t channel) const noexcept;
    // Those that note_whole() told of and finish() did not.
    std::size_t waiting() const noexcept { return waiting_; }
    std::uint64_t waiting_bytes() const noexcept { return waiting_bytes_; }
    std::uint64_t eager_bytes() const noexcept { return eager_bytes_; }
    bool has_room() const noexcept { return waiting_ < wire::kMaxWaiting; }

  private:
    std::list<Arrival> all_, spare_;
    std::vector<Arrival*> open_;
    std::size_t waiting_ = 0;
    std::uint64_t waiting_bytes_ = 0;  // of streamed ones
    std::uint64_t eager_bytes_ = 0;    // of the others
    std::uint64_t seen_ = 0;           // graphs
};

}  // namespace verbatim::objects

// The room of a send path is how many blocks must be free for an ordinary request. A path that is
// paused has room for nothing. One that is watched says the same once, so that its watch is told of
// the next request, and no other costs an instruction. Threads: the lane's. Data path.
#pragma once

#include <cstdint>
#include <utility>

#include "post_watch.hpp"

namespace verbatim {

class SendRoom {
  public:
    // `ordinary`: blocks that a request needs.
    explicit SendRoom(std::uint32_t ordinary) noexcept : ordinary_(ordinary), needed_(ordinary) {}

    // Free blocks that a request needs now.
    std::uint32_t needed() const noexcept { return needed_; }
    // There is none. True: there is, but the path was watched.
    [[gnu::noinline]] bool admits(std::uint32_t free) noexcept {
        if (needed_ != kWatched) return false;
        needed_ = ordinary_;
        PostWatch* const watch = std::exchange(watch_, nullptr);
        watch->posts(*watch);
        return free >= ordinary_;
    }
    // The next ordinary request is told to `watch` before it is posted, once.
    void watch(PostWatch& watch) noexcept {
        watch_ = &watch;
        if (!is_paused()) needed_ = kWatched;
    }
    void set_paused(bool on) noexcept {
        needed_ = on ? kNothing : watch_ != nullptr ? kWatched : ordinary_;
    }
    bool is_paused() const noexcept { return needed_ == kNothing; }

  private:
    // No queue has so much room.
    static constexpr std::uint32_t kNothing = ~std::uint32_t{0}, kWatched = kNothing - 1;

    std::uint32_t ordinary_, needed_;
    PostWatch* watch_ = nullptr;
};

}  // namespace verbatim

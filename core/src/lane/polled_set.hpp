// A polled set is the members of a lane whose memory is polled: at most `hot` of them, and those
// that are being armed. Of too many the one is armed that was active longest ago. So a poll costs
// the same with ten thousand idle connections. Threads: the lane's. Data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lane_member.hpp"
#include "one_thread.hpp"

namespace verbatim {

class PolledSet {
  public:
    // `one_thread`: the lane's.
    PolledSet(std::size_t hot, OneThread& one_thread) : hot_(hot), one_thread_(one_thread) {}

    // Room for one more member, so that add() allocates nothing. Throws std::bad_alloc.
    void reserve(std::size_t members) { polled_.reserve(members); }
    void add(LaneMember& member) noexcept;
    void remove(LaneMember& member) noexcept;

    // Looks at all of them; returns how many had something new. `poll`: the lane's count of polls.
    std::size_t look(std::uint64_t poll) noexcept;
    // Arms all. What the lane may do: what its most restless member lets it.
    LaneMember::Rest arm_all() noexcept;
    std::size_t size() const noexcept { return polled_.size(); }
    // For what members do outside of calls of their connections.
    auto enter(const char* object) noexcept { return one_thread_.enter(object); }

  private:
    void arm_one() noexcept;

    std::size_t hot_;
    std::vector<LaneMember*> polled_;
    std::uint64_t poll_ = 0;
    OneThread& one_thread_;
};

}  // namespace verbatim

// A polled set is the members of a lane whose memory is polled: at most `hot` of them, those that
// are being armed, and those whose note has changed. Of too many the one is armed that was active
// longest ago (docs/arrival.md, "The receiver: notes"). So a poll costs the same with ten thousand
// idle connections. Threads: the lane's. Data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lane_member.hpp"
#include "noted_members.hpp"
#include "one_thread.hpp"

namespace verbatim {

class PolledSet {
  public:
    // `one_thread`: the lane's.
    PolledSet(std::size_t hot, OneThread& one_thread) : hot_(hot), one_thread_(one_thread) {}

    // Room for so many members, and for a note, so that polls allocate nothing. Throws
    // std::bad_alloc.
    void reserve(std::size_t members) { polled_.reserve(members); }
    void reserve(const NotePool::Note& note) { noted_.reserve(note); }
    void add(LaneMember& member) noexcept;
    // It goes for good.
    void leave(LaneMember& member) noexcept;

    // Looks at all of them; returns how many had something new. `poll`: the lane's count of polls.
    std::size_t look(std::uint64_t poll) noexcept;
    // Arms all for a sleep. What the lane may do: what its most restless member lets it.
    LaneMember::Rest arm_all() noexcept;
    std::size_t size() const noexcept { return polled_.size(); }
    // Before a flush of telemetry: those that are polled may have received; others are noted where
    // something happens to them. `connections`: of the lane.
    void note_all(telemetry::LaneTelemetry::Lane& counts, std::size_t connections) noexcept {
        for (LaneMember* member : polled_) member->telemetry.note();
        counts.connections = connections;
        counts.polled = polled_.size();
    }
    // It is the parent's: a forked child has none of the memory that members look at.
    bool is_inherited() const noexcept { return generation_ != fork_generation(); }
    // For what members do outside of calls of their connections.
    auto enter(const char* object) noexcept { return one_thread_.enter(object); }

  private:
    void push(LaneMember& member) noexcept;
    void remove_at(std::size_t at) noexcept;
    [[gnu::noinline]] void look_at_notes() noexcept;
    void take_note(LaneMember& member) noexcept;
    [[gnu::always_inline]] inline std::size_t look_at_polled() noexcept;
    void arm_oldest(std::size_t most, std::uint64_t since) noexcept;
    void cool() noexcept;
    LaneMember::Rest rearm(LaneMember& noted) noexcept;

    std::size_t hot_;
    std::vector<LaneMember*> polled_;
    NotedMembers noted_;
    std::uint64_t poll_ = 0;
    std::size_t hot_now_ = 0;  // as of the last poll
    OneThread& one_thread_;
    const std::uint64_t generation_ = fork_generation();
};

}  // namespace verbatim

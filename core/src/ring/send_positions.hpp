// Send positions say where the sending end of a ring may write next. A ring is used from its
// beginning: a lap ends after `kShortLap` bytes if the peer has consumed the beginning by then, and
// else goes on. So a connection with little under way touches few pages and keeps them in its
// cache, and one with much has all of the ring (docs/lanes.md, "Laps"). Positions count bytes and
// never wrap; each lap begins at a multiple of the ring's size. Threads: the lane's. Data path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ring_format.hpp"

namespace verbatim {

class SendPositions {
  public:
    explicit SendPositions(std::size_t bytes) noexcept
        : bytes_(bytes),
          has_short_laps_(ring::has_short_laps(bytes)),
          turn_at_(has_short_laps_ ? ring::kShortLap : bytes) {}

    std::uint64_t sent() const noexcept { return sent_; }
    std::size_t offset_of(std::uint64_t position) const noexcept { return position & (bytes_ - 1); }
    // Bytes to the end of the ring.
    std::size_t to_end(std::uint64_t position) const noexcept {
        return bytes_ - offset_of(position);
    }
    // Everything before this position may be written.
    bool has_room_until(std::uint64_t position) const noexcept {
        return position - free_from_ <= bytes_;
    }
    bool has_room(std::size_t slot) const noexcept { return has_room_until(sent_ + slot); }
    // Bytes at sent() that a record may take without a turn.
    std::size_t room() const noexcept {
        return sent_ >= turn_at_ ? 0 : std::min(bytes_ - (sent_ - free_from_), turn_at_ - sent_);
    }
    void advance(std::size_t bytes) noexcept { sent_ += bytes; }
    // The peer has consumed this much more. False: more than was sent.
    bool gain(std::uint64_t bytes) noexcept {
        if (bytes > sent_ - consumed_) return false;
        consumed_ += bytes;
        settle();
        return true;
    }
    std::uint64_t consumed() const noexcept { return consumed_; }

    // The lap may have to end before a record of so many bytes.
    bool is_at_turn(std::size_t slot) const noexcept { return sent_ + slot > turn_at_; }
    // Bytes to skip before that record; 0: none. `fits`: false where there is no room for both.
    struct Turn {
        std::size_t skip = 0;
        bool fits = true, early = false;
    };
    Turn turn(std::size_t slot) noexcept {
        const std::size_t rest = to_end(sent_);
        if (slot > rest) return {rest, has_room(rest + slot), false};
        if (may_turn_early(slot)) return {rest, true, true};
        const std::uint64_t begin = sent_ - (bytes_ - rest), end = sent_ + rest;
        turn_at_ = std::min(std::max(begin + ring::kShortLap, sent_ + slot + kStep), end);
        return {};
    }
    // What turn() says was skipped.
    void turned(const Turn& turn) noexcept {
        turn_at_ = sent_ + (has_short_laps_ ? ring::kShortLap : bytes_);
        if (!turn.early) return;
        begins_ = sent_;
        behind_ = sent_ + (bytes_ - turn.skip) + ring::kAlignment;
        settle();
    }

    // Bytes to skip so that what the peer has yet to read of a lap that ended early lies behind;
    // 0: nothing is gained so.
    std::size_t unread() const noexcept {
        return consumed_ < begins_ && free_from_ != begins_ ? behind_ - sent_ : 0;
    }
    // What unread() says was skipped: the rest of the ring holds nothing unread.
    void passed() noexcept { free_from_ = begins_; }

  private:
    // Between two looks at whether a long lap may end.
    static constexpr std::size_t kStep = 4096;

    // Of this lap the peer has consumed what the record needs, and one step for the skip behind it.
    // Beyond half of the ring a record of full length might find no room on either side.
    bool may_turn_early(std::size_t slot) const noexcept {
        const std::size_t offset = offset_of(sent_);
        const std::uint64_t needed = std::max(slot + ring::kAlignment, ring::kShortLap / 2);
        return has_short_laps_ && offset >= ring::kShortLap / 2 && offset <= bytes_ / 2 &&
               consumed_ >= sent_ - offset + needed;
    }
    void settle() noexcept {
        if (consumed_ >= begins_)
            free_from_ = consumed_;
        else if (free_from_ != begins_)
            free_from_ = consumed_ - ring::kAlignment;  // for the skip over what is unread
    }

    std::size_t bytes_;
    bool has_short_laps_;
    std::uint64_t sent_ = 0, consumed_ = 0;
    std::uint64_t free_from_ = 0;  // nothing at or behind it, a ring ago, is unread
    std::uint64_t turn_at_;        // a record beyond it asks turn()
    // The last lap that began early: its first position, and the first one whose place holds
    // nothing unread of the lap before.
    std::uint64_t begins_ = 0, behind_ = 0;
};

}  // namespace verbatim

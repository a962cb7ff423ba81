// Noted members are connections of a lane whose memory is not polled: their peers write a note with
// each thing (docs/arrival.md, "Notes"). A poll looks at lines of eight notes. Threads: the lane's.
// Data path, but for reserve().
#pragma once

#include <emmintrin.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/mlx5/wqe_units.hpp>

#include "../arrival/note_pool.hpp"

namespace verbatim {

class LaneMember;

class NotedMembers {
  public:
    // Room for a note, so that add() allocates nothing. Throws std::bad_alloc.
    void reserve(const NotePool::Note& note);
    bool empty() const noexcept { return lines_ == 0; }
    // Beyond these lines members are armed instead: then polls do not get dearer.
    bool has_room(const LaneMember& member) const noexcept;
    // From now on changes of its note are news.
    void add(LaneMember& member) noexcept;
    // No effect where it is not here.
    void remove(const LaneMember& member) noexcept;

    // Calls `tell(LaneMember&)` for each whose note has changed. It may add and remove members.
    template <class Tell>
    void look(Tell tell) noexcept {
        for (const auto& page : pages_)
            for (std::uint64_t lines = page->lines; lines != 0; lines &= lines - 1) {
                const std::size_t first = first_of(lines);
                if (has_changed(page->notes->words + first, page->seen.data() + first)) [[unlikely]]
                    tell_of(*page, first, tell);
            }
    }
    // Calls `visit(LaneMember&)` for each; it may remove that one.
    template <class Visit>
    void for_each(Visit visit) noexcept {
        for (const auto& page : pages_)
            for (std::uint64_t lines = page->lines; lines != 0; lines &= lines - 1)
                for (std::size_t i = 0; i < kOfLine; ++i)
                    if (LaneMember* const member = page->members[first_of(lines) + i];
                        member != nullptr)
                        visit(*member);
    }
    // One place after the other, from call to call; null where nobody is.
    LaneMember* next() noexcept;

  private:
    static constexpr std::size_t kMostLines = 128, kOfLine = NotePage::kOfLine;

    struct Page {
        std::uint64_t lines = 0;  // bits of those that hold members
        const NotePage* notes = nullptr;
        alignas(64) std::array<std::uint64_t, NotePage::kNotes> seen{};
        std::array<LaneMember*, NotePage::kNotes> members{};
        std::array<std::uint8_t, NotePage::kLines> counts{};  // of members
    };
    static std::size_t first_of(std::uint64_t lines) noexcept {
        return static_cast<std::size_t>(std::countr_zero(lines)) * kOfLine;
    }
    // By vectors, as a hint: tell_of() reads each word by itself. To ThreadSanitizer they race.
    static bool has_changed(const std::uint64_t* words, const std::uint64_t* seen) noexcept {
        if constexpr (mlx5::kThreadSanitizer) {
            std::uint64_t changed = 0;
            for (std::size_t i = 0; i < kOfLine; ++i)
                changed |= __atomic_load_n(words + i, __ATOMIC_RELAXED) ^ seen[i];
            return changed != 0;
        }
        const auto* const now = reinterpret_cast<const __m128i*>(words);
        const auto* const then = reinterpret_cast<const __m128i*>(seen);
        __m128i same = _mm_cmpeq_epi8(_mm_load_si128(now), _mm_load_si128(then));
        for (std::size_t i = 1; i < kOfLine / 2; ++i)
            same = _mm_and_si128(same,
                                 _mm_cmpeq_epi8(_mm_load_si128(now + i), _mm_load_si128(then + i)));
        return _mm_movemask_epi8(same) != 0xffff;
    }
    template <class Tell>
    static void tell_of(Page& page, std::size_t first, Tell& tell) noexcept {
        for (std::size_t at = first; at < first + kOfLine; ++at) {
            const std::uint64_t word = __atomic_load_n(&page.notes->words[at], __ATOMIC_ACQUIRE);
            if (word == page.seen[at]) continue;
            page.seen[at] = word;
            if (LaneMember* const member = page.members[at]; member != nullptr) tell(*member);
        }
    }

    std::vector<std::unique_ptr<Page>> pages_;
    std::size_t lines_ = 0;  // that hold members
    std::size_t turn_ = 0;   // of next()
};

}  // namespace verbatim

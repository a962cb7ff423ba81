// Lines come into use and go.
#include "noted_members.hpp"

#include "lane_member.hpp"

namespace verbatim {

void NotedMembers::reserve(const NotePool::Note& note) {
    while (pages_.size() <= note.page_number()) pages_.push_back(std::make_unique<Page>());
    pages_[note.page_number()]->notes = &note.page();
}

bool NotedMembers::has_room(const LaneMember& member) const noexcept {
    const NotePool::Note& note = *member.polling.note;
    return lines_ < kMostLines || pages_[note.page_number()]->counts[note.place() / kOfLine] != 0;
}

void NotedMembers::add(LaneMember& member) noexcept {
    const NotePool::Note& note = *member.polling.note;
    Page& page = *pages_[note.page_number()];
    const std::size_t at = note.place(), line = at / kOfLine;
    page.seen[at] = __atomic_load_n(&page.notes->words[at], __ATOMIC_RELAXED);
    if (page.members[at] != nullptr) return;
    page.members[at] = &member;
    if (page.counts[line]++ != 0) return;
    page.lines |= std::uint64_t{1} << line;
    ++lines_;
}

// Its note may be of another lane: it was to join this one, and could not.
void NotedMembers::remove(const LaneMember& member) noexcept {
    const NotePool::Note& note = *member.polling.note;
    if (note.page_number() >= pages_.size()) return;
    Page& page = *pages_[note.page_number()];
    const std::size_t at = note.place(), line = at / kOfLine;
    if (page.members[at] != &member) return;
    page.members[at] = nullptr;
    if (--page.counts[line] != 0) return;
    page.lines &= ~(std::uint64_t{1} << line);
    --lines_;
}

LaneMember* NotedMembers::next() noexcept {
    if (lines_ == 0) return nullptr;
    const std::size_t turn = turn_++;
    return pages_[turn / NotePage::kNotes % pages_.size()]->members[turn % NotePage::kNotes];
}

}  // namespace verbatim

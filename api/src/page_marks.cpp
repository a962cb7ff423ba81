// The cold half of the address map: pages and slots.
#include <verbatim/objects/page_marks.hpp>

#include <utility>

namespace verbatim::objects {

bool PageMarks::open(std::uint64_t number) {
    const Slot* slot = find(number);
    if (slot->number == number) {
        if (slot->whole != 0) return false;
        cache(number, slot->page);
        return true;
    }
    add_page(*insert(number));
    if (cached_->direct) {
        const auto live = arena_.live_granules(static_cast<std::uintptr_t>(number * kPageBytes));
        for (std::size_t i = 0; i < live.size(); ++i) cached_->taken[i] = ~live[i];
    }
    return true;
}

void PageMarks::split(std::uint64_t number) {
    Slot& slot = *find(number);
    add_page(slot);
    cached_->taken.fill(~std::uint64_t{0});
    cached_->newest.fill(std::exchange(slot.whole, 0));
}

void PageMarks::add_page(Slot& slot) {
    if (used_pages_ == blocks_.size() * kPagesPerBlock)
        blocks_.push_back(std::make_unique_for_overwrite<Page[]>(kPagesPerBlock));
    slot.page = static_cast<std::uint32_t>(used_pages_++);
    cache(slot.number, slot.page);
    *cached_ = Page{};
    const auto address = static_cast<std::uintptr_t>(slot.number * kPageBytes);
    cached_->direct = arena_.contains(reinterpret_cast<const void*>(address));
}

PageMarks::Slot* PageMarks::insert(std::uint64_t number) {
    if (used_slots_ * 2 >= slots_.size()) grow();
    Slot* slot = find(number);
    slot->number = number;
    ++used_slots_;
    return slot;
}

void PageMarks::grow() {
    std::vector<Slot> old(slots_.size() * 2);
    std::swap(old, slots_);
    for (const Slot& slot : old)
        if (slot.number != kNoPage) *find(slot.number) = slot;
}

}  // namespace verbatim::objects

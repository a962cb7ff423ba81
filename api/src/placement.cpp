#include <verbatim/objects/graph/placement.hpp>

#include <algorithm>

namespace verbatim::objects {

void Placement::begin(std::span<const TypeKey* const> types) noexcept {
    types_ = types;
    marks_.clear();
    listed_.clear();
    listed_before_.clear();
    cleared_ = 0;
}

// In steps of the reach of a search, of a small graph in smaller ones.
void Placement::clear_to(std::uint64_t granule) {
    constexpr std::uint64_t kFirstStep = 32;
    const std::uint64_t step = granule < kReach / 2 ? kFirstStep : kReach;
    const std::uint64_t more = round_to(granule + 1, step) - cleared_;
    std::uint16_t* const first = marks_.room_for(more);
    std::memset(first, 0, more * sizeof *first);
    marks_.commit(first + more);
    cleared_ += more;
}

void Placement::place(std::uint64_t offset, std::uint64_t count, std::uint16_t number) {
    if (count == 0) return;  // no reference leads there, and the next object starts there, too
    const std::uint64_t granule = offset / kImageGranule;
    if (granule >= cleared_) clear_to(granule);
    const bool is_listed = count != 1 || types_[number - 1]->bytes > kSearchedBytes;
    marks_[granule] = is_listed ? number | kListed : number;
    if (!is_listed) return;
    while (listed_before_.size() <= granule / kCounted) listed_before_.push_back(listed_.size());
    listed_.push_back({offset, count, number});
}

Placement::Object Placement::find(std::uint64_t offset) const noexcept {
    // Often it is the last array: the one that was placed a moment ago, or most of the graph.
    if (!listed_.empty()) {
        const Object& last = listed_.back();
        if (offset - last.offset < bytes_of(last)) return last;
    }
    const std::uint64_t granule = offset / kImageGranule;
    const std::uint64_t end = granule < kReach ? 0 : granule - kReach;
    // Nothing starts behind what was cleared, but a large object may reach there.
    const std::uint64_t first = std::min(granule + 1, cleared_);
    const std::uint64_t near = std::max(end, first - std::min(first, kNear));
    std::uint64_t at = marked_end(first, near);
    if (at == near && near > end) {
        // Most likely it lies in a long array: the rest of the reach would be searched in vain.
        const Object listed = last_listed_before(first);
        if (listed.number != 0 && offset - listed.offset < bytes_of(listed)) return listed;
        at = marked_end(near, end);
    }
    if (at > end && (marks_[at - 1] & kListed) == 0)
        return {(at - 1) * kImageGranule, 1, marks_[at - 1]};
    return last_listed_before(first);
}

std::uint64_t Placement::marked_end(std::uint64_t at, std::uint64_t end) const noexcept {
    while (at > end && marks_[at - 1] == 0) --at;
    return at;
}

// Counts marks: a search among many small arrays would miss the cache with each step.
Placement::Object Placement::last_listed_before(std::uint64_t granule) const noexcept {
    const std::uint64_t step = granule / kCounted;
    std::uint64_t count = listed_.size();
    if (step < listed_before_.size()) {
        std::uint16_t marked = 0;
        for (std::uint64_t at = step * kCounted; at < granule; ++at)
            marked = static_cast<std::uint16_t>(marked + marks_[at] / kListed);
        count = listed_before_[step] + marked;
    }
    return count == 0 ? Object{} : listed_[count - 1];
}

Held Placement::held(const Object& object, const std::byte* bytes, std::uint64_t offset,
                     const TypeKey& type, std::uint64_t count) const noexcept {
    if (object.number == 0 || offset < object.offset) return Held::no;
    return objects::held({type_of(object).info(), object.count, bytes}, offset - object.offset,
                         type.info(), count);
}

}  // namespace verbatim::objects

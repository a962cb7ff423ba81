#include <verbatim/objects/graph/placement.hpp>

#include <algorithm>

namespace verbatim::objects {

void Placement::begin(std::span<const TypeKey* const> types) noexcept {
    types_ = types;
    marks_.clear();
    listed_.clear();
    cleared_ = 0;
}

// In steps of the reach of a search.
void Placement::clear_to(std::uint64_t granule) {
    constexpr std::uint64_t kStepGranules = kSearchedBytes / kImageGranule;
    const std::uint64_t more = round_to(granule + 1, kStepGranules) - cleared_;
    std::uint16_t* const first = marks_.room_for(more);
    std::memset(first, 0, more * sizeof *first);
    marks_.commit(first + more);
    cleared_ += more;
}

void Placement::place(std::uint64_t offset, std::uint64_t count, std::uint16_t number) {
    const std::uint64_t granule = offset / kImageGranule;
    if (granule >= cleared_) clear_to(granule);
    const bool is_listed = count != 1 || types_[number - 1]->bytes > kSearchedBytes;
    marks_[granule] = is_listed ? number | kListed : number;
    if (is_listed) listed_.push_back({offset, count, number});
}

Placement::Object Placement::find(std::uint64_t offset) const noexcept {
    const std::uint64_t granule = offset / kImageGranule;
    const std::uint64_t reach = kSearchedBytes / kImageGranule;
    const std::uint64_t end = granule < reach ? 0 : granule - reach;
    // Nothing starts behind what was cleared, but a large object may reach there.
    for (std::uint64_t at = std::min(granule + 1, cleared_); at > end; --at) {
        const std::uint16_t mark = marks_[at - 1];
        if (mark == 0) continue;
        if ((mark & kListed) == 0) return {(at - 1) * kImageGranule, 1, mark};
        break;
    }
    const auto after =
        std::upper_bound(listed_.begin(), listed_.end(), offset,
                         [](std::uint64_t at, const Object& object) { return at < object.offset; });
    return after == listed_.begin() ? Object{} : *std::prev(after);
}

bool Placement::holds(const Object& object, const std::byte* bytes, std::uint64_t offset,
                      const TypeKey& type, std::uint64_t count) const noexcept {
    if (object.number == 0 || offset < object.offset) return false;
    return objects::holds({type_of(object).info(), object.count, bytes}, offset - object.offset,
                          type.info(), count);
}

}  // namespace verbatim::objects

#include <verbatim/objects/composed/composed_map.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace verbatim::objects {

void ComposedMap::begin(std::span<const TypeKey* const> types, std::uint64_t used) {
    types_ = types;
    granules_ = used / kGranule;
    cells_.clear();
    ComposedCell* const first = cells_.room_for(granules_ + ComposedCells::kSpare);
    ComposedCell* const end = first + granules_;
    std::memset(first, 0, granules_ * sizeof *first);
    std::fill_n(end, ComposedCells::kSpare, ComposedCells::kTaken);
    cells_.commit(end + ComposedCells::kSpare);
    arrays_.clear();
    last_ = {};
    (void)claim(0, std::min(used, ComposedHead::kBytes));
}

bool ComposedMap::claim_many(ComposedCell* first, std::uint64_t count) noexcept {
    ComposedCell others = 0;
    for (std::uint64_t i = 0; i < count; ++i) others = static_cast<ComposedCell>(others | first[i]);
    if (others == 0) std::fill_n(first, count, ComposedCells::kTaken);
    return others == 0;
}

void ComposedMap::place(std::uint64_t offset, std::uint64_t count, ComposedCell number) {
    if (count == 1 && types_[number - 1u]->bytes <= kMarkedBytes && offset % kGranule == 0)
        cells_[offset / kGranule] = number;
    else
        arrays_.insert_or_assign(arrays_.end(), offset, Object{offset, count, number});
}

bool ComposedMap::starts(std::uint64_t offset, std::uint64_t count,
                         ComposedCell number) const noexcept {
    if (count == 1 && is_marked(offset, number)) return true;
    if (count == 1 && types_[number - 1u]->bytes <= kMarkedBytes) return false;
    const auto at = arrays_.find(offset);
    return at != arrays_.end() && at->second.count == count && at->second.number == number;
}

ComposedMap::Object ComposedMap::find(std::uint64_t offset) const noexcept {
    if (last_.number != 0 && offset - last_.offset < bytes_of(last_)) return last_;
    if (const auto after = arrays_.upper_bound(offset); after != arrays_.begin()) {
        const Object& array = std::prev(after)->second;
        if (offset - array.offset < bytes_of(array)) return last_ = array;
    }
    const std::uint64_t granule = offset / kGranule, reach = kMarkedBytes / kGranule;
    const std::uint64_t end = granule < reach ? 0 : granule - reach;
    for (std::uint64_t at = granule + 1; at > end; --at)
        if (const ComposedCell cell = cells_[at - 1]; cell != 0 && cell != ComposedCells::kTaken)
            return {(at - 1) * kGranule, 1, cell};
    return {};
}

bool ComposedMap::holds(std::uint64_t offset, std::uint64_t count, const TypeKey& type,
                        const std::byte* bytes) const noexcept {
    const Object object = find(offset);
    if (object.number == 0) return false;
    const ObjectArray outer{type_of(object).info(), object.count, bytes + object.offset};
    return objects::holds(outer, offset - object.offset, type.info(), count);
}

}  // namespace verbatim::objects

#include <verbatim/objects/composed/composed_map.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace verbatim::objects {
namespace {

template <class T>
void fill_zero(Column<T>& column, std::uint64_t count) {
    column.clear();
    T* const first = column.room_for(count);
    std::memset(first, 0, count * sizeof(T));
    column.commit(first + count);
}

}  // namespace

void ComposedMap::begin(std::span<const TypeKey* const> types, std::uint64_t used) {
    types_ = types;
    used_ = used;
    const std::uint64_t granules = used / kGranule + 1;
    fill_zero(taken_, granules / 64 + 1);
    fill_zero(marks_, types.empty() ? 0 : granules);
    arrays_.clear();
    last_ = {};
    (void)claim(0, std::min(used, ComposedHead::kBytes));
}

// More than the bits of one word.
bool ComposedMap::claim_words(std::uint64_t first, std::uint64_t end) noexcept {
    const auto each = [&](auto&& call) {
        for (std::uint64_t at = first; at < end;) {
            const std::uint64_t bit = at % 64, count = std::min(64 - bit, end - at);
            call(taken_[at / 64], (~std::uint64_t{0} >> (64 - count)) << bit);
            at += count;
        }
    };
    std::uint64_t others = 0;
    each([&](std::uint64_t word, std::uint64_t mask) { others |= word & mask; });
    if (others == 0) each([](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
    return others == 0;
}

void ComposedMap::place(std::uint64_t offset, std::uint64_t count, std::uint16_t number) {
    if (count == 1 && types_[number - 1]->bytes <= kMarkedBytes && offset % kGranule == 0)
        marks_[offset / kGranule] = number;
    else
        arrays_.insert_or_assign(arrays_.end(), offset, Object{offset, count, number});
}

bool ComposedMap::starts(std::uint64_t offset, std::uint64_t count,
                         std::uint16_t number) const noexcept {
    if (count == 1 && offset % kGranule == 0 && marks_[offset / kGranule] == number) return true;
    if (count == 1 && types_[number - 1]->bytes <= kMarkedBytes) return false;
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
        if (const std::uint16_t mark = marks_[at - 1]; mark != 0)
            return {(at - 1) * kGranule, 1, mark};
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

// The paths of the receiver's walk that are not taken for every reference.
#include <verbatim/objects/graph/mending.hpp>

#include <algorithm>
#include <cstring>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

Mending::Mending(MendTables& tables, Run run, std::span<const TypeKey* const> types,
                 std::size_t inner_types, bool acyclic)
    : tables_(tables), run_(run), types_(types), acyclic_(acyclic) {
    if (tables_.waiting.size() < inner_types) tables_.waiting.resize(inner_types);
    restart();
}

void Mending::restart() {
    tables_.placement.begin(types_);
    tables_.stack.clear();
    for (auto& waiting : tables_.waiting) waiting.clear();
    tables_.later.clear();
    tables_.to_validate.clear();
    tables_.texts.clear();
    tables_.places.clear();
    tables_.arrays.clear();
    tables_.bases.clear();
    cursor_ = end_ = references_ = steps_ = objects_ = records_ = 0;
    place_ = array_ = 0;
    next_record_ = kNever;
    base_ = nullptr;
    root_ = nullptr;
    told_ = {};
    memory_end_ = 0;
}

void Mending::corrupt(const char* what) {
    throw Error(Errc::corrupt_message, "received graph", what,
                "the graph was dropped; nothing of it was handed out");
}

void Mending::add_memory(std::uint64_t first, std::byte* memory, std::uint64_t bytes) {
    if (first != tables_.bases.size() || memory_end_ % kSegmentBytes != 0 || bytes == 0)
        corrupt("its segments do not follow each other");
    for (std::uint64_t at = 0; at < bytes; at += kSegmentBytes)
        tables_.bases.push_back(memory + at);
    memory_end_ = first * kSegmentBytes + bytes;
}

void Mending::add_records(std::span<const PlaceRecord> places,
                          std::span<const ArrayRecord> arrays) {
    const auto drop_used = [](auto& records, std::size_t& next) {
        if (next != records.size()) return;
        records.clear();
        next = 0;
    };
    drop_used(tables_.places, place_);
    drop_used(tables_.arrays, array_);
    for (const PlaceRecord& place : places) tables_.places.push_back(place);
    for (const ArrayRecord& array : arrays) tables_.arrays.push_back(array);
    records_ += places.size() + arrays.size();
    find_record();
}

void Mending::advance_to(const Told& told) {
    if (told_.is_last || told.cursor < told_.cursor || told.steps < told_.steps ||
        told.references < told_.references || told.cursor > memory_end_)
        corrupt("it contradicts itself");
    told_ = told;
    if (base_ != nullptr) set_segment(cursor_);
}

// The segment that an offset, or the end of one, belongs to.
void Mending::set_segment(std::uint64_t offset) noexcept {
    const std::uint64_t segment = offset == 0 ? 0 : segment_of(offset - 1);
    end_ = std::min((segment + 1) * kSegmentBytes, told_.cursor);
    base_ = tables_.bases[segment] - segment * kSegmentBytes;
}

std::byte* Mending::take_in_next(std::uint64_t bytes, std::uint64_t alignment,
                                 std::uint64_t& offset) {
    // Still in this segment: then it lies behind what was told.
    const std::uint64_t start = round_to(cursor_, alignment);
    const bool is_large = bytes > kSegmentBytes;
    if (!is_large && base_ != nullptr && cursor_ % kSegmentBytes != 0 &&
        start + bytes <= round_to(cursor_, kSegmentBytes))
        corrupt("an object lies behind its end");
    offset = round_to(cursor_, kSegmentBytes);
    if (offset > told_.cursor || bytes > told_.cursor - offset)
        corrupt("an object lies behind its end");
    std::byte* const at = memory_at(offset);
    if (is_large) {
        check_side_by_side(offset, bytes);
        cursor_ = round_to(offset + bytes, kSegmentBytes);
        end_ = 0;
        base_ = nullptr;
        return at;
    }
    cursor_ = offset + bytes;
    set_segment(offset + 1);
    return at;
}

void Mending::check_side_by_side(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t first = segment_of(offset), last = segment_of(offset + bytes - 1);
    for (std::uint64_t segment = first + 1; segment <= last; ++segment)
        if (tables_.bases[segment] != tables_.bases[segment - 1] + kSegmentBytes)
            corrupt("a large object lies in several pieces");
}

bool Mending::run_frames() {
    Column<MendFrame>& stack = tables_.stack;
    std::uint64_t left = told_.steps - steps_;
    for (; !stack.empty() && left > 0; --left) {
        const MendFrame& frame = stack.back();  // as in Packing::run_frames()
        stack.pop_back();
        frame.step(*this, frame);
    }
    steps_ = told_.steps - left;
    return stack.empty();
}

void Mending::find_record() noexcept {
    const std::uint64_t place =
        place_ < tables_.places.size() ? tables_.places[place_].reference : kNever;
    const std::uint64_t array =
        array_ < tables_.arrays.size() ? tables_.arrays[array_].reference : kNever;
    next_record_ = std::min(place, array);
}

const PlaceRecord* Mending::next_place() noexcept {
    if (place_ >= tables_.places.size() || tables_.places[place_].reference != next_record_)
        return nullptr;
    const PlaceRecord* const record = &tables_.places[place_++];
    find_record();
    return record;
}

const ArrayRecord* Mending::next_array() noexcept {
    const ArrayRecord* const record = &tables_.arrays[array_++];
    find_record();
    return record;
}

std::byte* Mending::refer(std::uint64_t offset, std::uint64_t count, const TypeKey& type) {
    if (offset >= told_.cursor || count > (told_.cursor - offset) / type.bytes ||
        offset % type.alignment != 0)
        corrupt("a reference leads out of the graph");
    if (offset >= cursor_)
        tables_.later.push_back({offset, count, &type});
    else if (!holds({offset, count, &type}))
        corrupt("a reference leads to no object of its type");
    return memory_at(offset);
}

bool Mending::holds(const LaterReference& reference) const noexcept {
    const Placement::Object object = tables_.placement.find(reference.offset);
    if (object.number == 0) return false;
    return tables_.placement.holds(object, memory_at(object.offset), reference.offset,
                                   *reference.type, reference.count);
}

// The first zero from `from` on, before `until` and in the object that it lies in; or kNever.
std::uint64_t Mending::end_of(const TextReference& text, std::uint64_t until) const noexcept {
    const Placement::Object object = tables_.placement.find(text.offset);
    if (object.number == 0) return kNever;
    const std::uint64_t end = std::min(until, object.offset + tables_.placement.bytes_of(object));
    const std::byte* const start = memory_at(object.offset) - object.offset;
    constexpr std::uint64_t kZero = 0;
    for (std::uint64_t at = text.offset; at + text.character_bytes <= end;
         at += text.character_bytes)
        if (std::memcmp(start + at, &kZero, text.character_bytes) == 0) return at;
    return kNever;
}

// From the last to the first, so that no byte is looked at twice however the texts overlap.
void Mending::check_texts() {
    auto& texts = tables_.texts;
    std::sort(texts.begin(), texts.end(), [](const TextReference& a, const TextReference& b) {
        return std::pair(a.character_bytes, a.offset) > std::pair(b.character_bytes, b.offset);
    });
    TextReference after{};
    std::uint64_t end_after = kNever;
    for (const TextReference& text : texts.span()) {
        const bool goes_on = text.character_bytes == after.character_bytes &&
                             tables_.placement.find(text.offset).offset ==
                                 tables_.placement.find(after.offset).offset;
        std::uint64_t end = end_of(text, goes_on ? after.offset : kNever);
        if (end == kNever && goes_on) end = end_after;
        if (end == kNever) corrupt("a text has no end");
        after = text;
        end_after = end;
    }
}

void Mending::finish() {
    if (next_record_ != kNever) corrupt("records are left over");
    if (references_ != told_.references || steps_ != told_.steps)
        corrupt("its walk ends before its end");
    if (cursor_ != told_.cursor) corrupt("bytes are left over");
    for (const LaterReference& reference : tables_.later.span())
        if (!holds(reference)) corrupt("a reference leads to no object of its type");
    check_texts();
    for (const ToValidate& check : tables_.to_validate.span())
        if (!check.is_valid(check.object)) refuse(check);
    done_ = true;
}

void Mending::refuse(const ToValidate& check) {
    throw Error(Errc::corrupt_message, "received object of type " + check.type->info().spelled(),
                "its validator does not accept it",
                "the graph was dropped; nothing of it was handed out");
}

}  // namespace verbatim::objects

// The paths of the receiver's walk that are not taken for every reference.
#include <verbatim/objects/graph/mending.hpp>

#include <algorithm>
#include <cstring>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

ToldClasses& MendTables::told_classes() {
    if (classes == nullptr) classes = std::make_shared<ToldClasses>();
    return *classes;
}

Mending::Mending(MendTables& tables, Run walk, std::span<const TypeKey* const> types,
                 std::size_t inner_types, bool acyclic)
    : tables_(tables), run_(walk), types_(types), acyclic_(acyclic) {
    if (tables_.waiting.size() < inner_types) tables_.waiting.resize(inner_types);
    restart();
}

void Mending::restart() {
    tables_.placement.begin(types_);
    tables_.stack.clear();
    for (auto& waiting : tables_.waiting) waiting.clear();
    tables_.later.clear();
    tables_.to_link.clear();
    tables_.to_validate.clear();
    tables_.texts.clear();
    known_texts_ = {};
    tables_.records.clear();
    tables_.image.begin();
    for (PredictedUse& predicted : tables_.predicted) predicted.last = {};
    tables_.open_waiting.clear();
    class_counts_ = {};
    references_ = steps_ = objects_ = 0;
    root_ = nullptr;
    told_ = {};
}

void Mending::advance_to(const Told& told) {
    if (told_.is_last || told.steps < told_.steps || told.references < told_.references)
        corrupt("it contradicts itself");
    tables_.image.advance_to(told.cursor);
    told_ = told;
}

bool Mending::run_frames() {
    Column<MendFrame>& stack = tables_.stack;
    while (!stack.empty() && may_go_on()) {
        const MendFrame& frame = stack.back();  // as in Packing::run_frames()
        stack.pop_back();
        ++steps_;
        frame.step(*this, frame);
    }
    return stack.empty();
}

Mending::Place Mending::refer(std::uint64_t offset, std::uint64_t count, const TypeKey& type) {
    const ImageCursor& image = tables_.image;
    if (offset >= image.told() || count > (image.told() - offset) / type.bytes ||
        offset % type.alignment != 0)
        corrupt("a reference leads out of the graph");
    if (offset < image.cursor()) return place_of({offset, count, &type});
    tables_.later.push_back({offset, count, &type});
    return {};
}

namespace {

constexpr std::uint64_t kZero = 0;

// Is it an array of such characters, the last of which is zero? Then so end all texts in it.
bool ends_with_zero(const MendTables& tables, const Placement::Object& object,
                    const TypeKey& type) noexcept {
    if (object.number == 0 || &tables.placement.type_of(object) != &type) return false;
    const std::uint64_t end = object.offset + tables.placement.bytes_of(object);
    if (end > tables.image.told()) return false;
    return std::memcmp(tables.image.memory_at(end - type.bytes), &kZero, type.bytes) == 0;
}

}  // namespace

std::byte* Mending::refer_to_text(std::uint64_t offset, const TypeKey& type) {
    const ImageCursor& image = tables_.image;
    KnownText& known = known_texts_[offset / kImageGranule % known_texts_.size()];
    if (known.offset == offset && known.type == &type) return image.memory_at(offset);
    const Placement::Object object = refer(offset, 1, type).object;
    if (object.number != 0) known = {offset, &type};
    if (!ends_with_zero(tables_, object, type)) tables_.texts.push_back({offset, type.bytes});
    return image.memory_at(offset);
}

Mending::Place Mending::place_of(const LaterReference& reference) const {
    const Placement& placement = tables_.placement;
    const Placement::Object object = placement.find(reference.offset);
    if (object.number != 0) {
        const std::byte* const bytes = tables_.image.memory_at(object.offset);
        const Held held =
            placement.held(object, bytes, reference.offset, *reference.type, reference.count);
        if (held != Held::no) return {object, held};
    }
    corrupt("a reference leads to no object of its type");
}

namespace {

// The first zero of the text, before `until` and in the object that it lies in; or kNever.
std::uint64_t end_of(const MendTables& tables, const Placement::Object& object,
                     const TextReference& text, std::uint64_t until) {
    if (object.number == 0) return Records::kNever;
    const std::uint64_t end = std::min(until, object.offset + tables.placement.bytes_of(object));
    const std::byte* const start = tables.image.memory_at(object.offset) - object.offset;
    for (std::uint64_t at = text.offset; at + text.character_bytes <= end;
         at += text.character_bytes)
        if (std::memcmp(start + at, &kZero, text.character_bytes) == 0) return at;
    return Records::kNever;
}

bool comes_after(const TextReference& a, const TextReference& b) noexcept {
    return std::pair(a.character_bytes, a.offset) > std::pair(b.character_bytes, b.offset);
}

}  // namespace

// From the last to the first, so that no byte is looked at twice however the texts overlap.
void Mending::check_texts() const {
    std::sort(tables_.texts.begin(), tables_.texts.end(), comes_after);
    TextReference after{0, 0};
    Placement::Object object;  // that the text lies in
    std::uint64_t end_after = Records::kNever;
    for (const TextReference& text : tables_.texts.span()) {
        const bool goes_on = text.character_bytes == after.character_bytes && object.number != 0 &&
                             text.offset >= object.offset;
        if (!goes_on) object = tables_.placement.find(text.offset);
        std::uint64_t end = end_of(tables_, object, text, goes_on ? after.offset : Records::kNever);
        if (end == Records::kNever && goes_on) end = end_after;
        if (end == Records::kNever) corrupt("a text has no end");
        after = text;
        end_after = end;
    }
}

void Mending::finish() {
    if (tables_.records.next() != Records::kNever) corrupt("records are left over");
    if (references_ != told_.references || steps_ != told_.steps)
        corrupt("its walk ends before its end");
    if (tables_.image.cursor() != told_.cursor) corrupt("bytes are left over");
    for (const ToLink& container : tables_.to_link.span()) container.link(*this, container.image);
    for (const LaterReference& reference : tables_.later.span()) (void)place_of(reference);
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

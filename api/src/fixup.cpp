// The general paths of the receiver's walk: what lies where in the image.
#include <verbatim/objects/fixup.hpp>

namespace verbatim::objects {

void Placement::begin(const std::byte* image, std::uint64_t image_bytes) {
    image_ = image;
    placed_.clear();
    blocks_ = 0;
    last_end_ = kNowhere;
    likely_.clear();
    // Old entries need no clearing: a block is looked up only after add() passed it.
    const std::uint64_t blocks = image_bytes / kBlockBytes + 1;
    if (first_.size() < blocks) first_.resize(blocks);
}

std::size_t Placement::last_before(std::uint64_t offset) const noexcept {
    // Behind the last object there may be characters in blocks that were not indexed yet.
    if (offset / kBlockBytes >= blocks_) return placed_.size() - 1;
    std::size_t at = first_[offset / kBlockBytes];
    while (at + 1 < placed_.size() && placed_[at + 1].offset <= offset) ++at;
    // An object was indexed for the blocks of the characters before it, too.
    if (at > 0 && placed_[at].offset > offset) --at;
    return at;
}

bool Placement::is_between(std::uint64_t offset, std::uint64_t end) const noexcept {
    const std::size_t at = last_before(offset);
    const Placed& before = placed_[at];
    if (offset < before.offset) return end <= before.offset;
    const std::uint64_t after =
        before.offset + (before.is_array
                             ? before.count * before.type->bytes
                             : (before.count - 1) * before.stride() + before.type->bytes);
    return offset >= after && (at + 1 == placed_.size() || end <= placed_[at + 1].offset);
}

bool Placement::holds(std::uint64_t offset, std::uint64_t count, const TypeKey& type) noexcept {
    const Placed& placed = placed_[last_before(offset)];
    if (offset < placed.offset) return false;  // padding before an over-aligned object
    const std::uint64_t delta = offset - placed.offset;
    likely_.of(*placed.type) = {placed.offset, placed.count * placed.stride(), placed.offset,
                                placed.type, placed.is_array};
    if (placed.is_array)
        return objects::holds(array_at(placed.offset, placed.count, *placed.type), delta,
                              type.info(), count);
    // Behind the last object there may be padding that belongs to nothing.
    if (delta / placed.stride() >= placed.count) return false;
    const std::uint64_t inner = delta % placed.stride();
    if (placed.type == &type && inner == 0 && count == 1) return true;
    return objects::holds(array_at(offset - inner, 1, *placed.type), inner, type.info(), count);
}

Fixup::Fixup(std::byte* image, std::uint64_t bytes, std::span<const BackPointer> back_pointers,
             std::span<const Extension> extensions, FixupTables& tables)
    : image_(image),
      bytes_(bytes),
      back_pointers_(back_pointers),
      extensions_(extensions),
      tracked_(!back_pointers.empty() || !extensions.empty()),
      tables_(tables) {
    find_exception();
    tables.later.clear();
    if (tracked_) tables.placement.begin(image, bytes);
}

void Fixup::require_terminator(const LaterReference& text) const {
    const std::uint64_t size = text.type->bytes;
    const std::byte* last = image_ + text.offset + (text.count - 1) * size;
    for (std::uint64_t i = 0; i < size; ++i)
        if (last[i] != std::byte{0}) corrupt("a string lacks its terminator");
}

void Fixup::finish() const {
    check_terminator();
    if (cursor_ != bytes_) corrupt("the graph is shorter than the bytes that came");
    if (!back_pointers_.empty() || !extensions_.empty()) corrupt("back-pointers are left over");
    for (const LaterReference& wanted : tables_.later) {
        const std::uint64_t end = wanted.offset + wanted.count * wanted.type->bytes;
        if (!tables_.placement.holds(wanted.offset, wanted.count, *wanted.type) &&
            !(wanted.characters && tables_.placement.is_between(wanted.offset, end)))
            corrupt("a back-pointer leads to no object of its type");
        if (wanted.text) require_terminator(wanted);
    }
}

void Fixup::corrupt(const char* what) {
    throw Error(Errc::corrupt_message, "received graph", what,
                "the message was dropped; nothing of it was handed out");
}

}  // namespace verbatim::objects

// The general paths of the receiver's walk: what lies where in the image.
#include <verbatim/objects/fixup.hpp>

namespace verbatim::objects {

Fixup::Fixup(std::byte* image, std::uint64_t bytes, std::span<const BackPointer> back_pointers,
             std::span<const Extension> extensions)
    : image_(image),
      bytes_(bytes),
      back_pointers_(back_pointers),
      extensions_(extensions),
      tracked_(!back_pointers.empty() || !extensions.empty()),
      next_back_reference_(back_pointers.empty() ? ~std::uint64_t{0} : back_pointers[0].reference),
      next_extension_reference_(extensions.empty() ? ~std::uint64_t{0} : extensions[0].reference) {
    if (tracked_) owner_.resize(bytes / kImageGranule + 1);
}

void Fixup::remember(std::uint64_t offset, std::uint64_t count, const TypeInfo& type) {
    const bool is_array = count != 1;
    Placed* last = placed_.empty() ? nullptr : &placed_.back();
    if (!is_array && last != nullptr && last->type == &type && !last->is_array &&
        last->offset + last->count * last->stride() == offset)
        ++last->count;
    else
        placed_.push_back({offset, count, &type, is_array});
    const std::uint64_t first = offset / kImageGranule, end = cursor_ / kImageGranule;
    for (std::uint64_t i = first; i < end; ++i)
        owner_[i] = static_cast<std::uint32_t>(placed_.size());
}

bool Fixup::is_placed(const Later& wanted) const noexcept {
    const std::uint32_t index = owner_[wanted.offset / kImageGranule];
    if (index == 0) return false;  // padding before an over-aligned object
    const Placed& placed = placed_[index - 1];
    const std::uint64_t delta = wanted.offset - placed.offset;
    if (placed.is_array)
        return holds(*placed.type, placed.count, delta, *wanted.type, wanted.count);
    return holds(*placed.type, 1, delta % placed.stride(), *wanted.type, wanted.count);
}

void Fixup::require_terminator(const Later& text) const {
    const std::uint64_t size = text.type->bytes;
    const std::byte* last = image_ + text.offset + (text.count - 1) * size;
    for (std::uint64_t i = 0; i < size; ++i)
        if (last[i] != std::byte{0}) corrupt("a string lacks its terminator");
}

void Fixup::finish() const {
    if (cursor_ != bytes_) corrupt("the graph is shorter than the bytes that came");
    if (next_back_ != back_pointers_.size() || next_extension_ != extensions_.size())
        corrupt("back-pointers are left over");
    for (const Later& wanted : later_) {
        if (!is_placed(wanted)) corrupt("a back-pointer leads to no object of its type");
        if (wanted.text) require_terminator(wanted);
    }
}

void Fixup::corrupt(const char* what) {
    throw Error(Errc::corrupt_message, "received graph", what,
                "the message was dropped; nothing of it was handed out");
}

}  // namespace verbatim::objects

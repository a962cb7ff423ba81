#include <verbatim/objects/composed/compose_arena.hpp>

#include <algorithm>
#include <cstring>

#include <verbatim/core/arena.hpp>

namespace verbatim::objects {
namespace {

PrivateBlock reserve(std::uint64_t capacity, std::uint64_t base) {
    if (base != 0 && SetAside::kIsUsable)
        if (PrivateBlock block = PrivateBlock::reserve(capacity, base); !block.is_empty())
            return block;
    return PrivateBlock::reserve(capacity);
}

constexpr std::uint64_t whole_granules(std::uint64_t bytes) noexcept {
    return bytes / ComposedMap::kGranule * ComposedMap::kGranule;
}

}  // namespace

ComposeArena::ComposeArena(std::uint64_t capacity, std::uint64_t base)
    : capacity_(whole_granules(std::min(std::max(capacity, std::uint64_t{4096}), kMaxImageBytes))),
      block_(reserve(capacity_, base)),
      outside_(std::pmr::new_delete_resource()) {
    block_.grow_to(used_);
}

void* ComposeArena::do_allocate(std::size_t bytes, std::size_t alignment) {
    const std::uint64_t start =
        round_to(used_, std::max<std::uint64_t>(alignment, ComposedMap::kGranule));
    if (start > capacity_ || bytes > capacity_ - start) {
        is_whole_ = false;
        return outside_.allocate(bytes, alignment);
    }
    const std::uint64_t end = round_to(start + bytes, ComposedMap::kGranule);
    block_.grow_to(std::min(end, capacity_));
    used_ = std::min(end, capacity_);
    return block_.data() + start;
}

ComposedMemory ComposeArena::finish(const void* root) noexcept {
    const ComposedHead head{
        address(), static_cast<std::uint64_t>(static_cast<const std::byte*>(root) - data())};
    std::memcpy(data(), &head, sizeof head);
    return {data(), used_, address()};
}

}  // namespace verbatim::objects

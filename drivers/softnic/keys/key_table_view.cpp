// Reading of entries.
#include "key_table_view.hpp"

namespace verbatim::softnic {

bool KeyTableView::find_index(std::uint32_t index, Grant& grant) const noexcept {
    const KeyEntry* const found = index < kFirstKeyIndex ? nullptr : chunks_->entry(index);
    if (found == nullptr) return false;
    const KeyEntry& entry = *found;
    // An entry that changes under us is being released or reused: both mean that its key is not
    // valid now.
    const std::uint64_t version = entry.version.load(std::memory_order_acquire);
    const std::uint32_t key = entry.key.load(std::memory_order_acquire);
    if ((version & 1) != 0 || key >> 8 != index) return false;
    grant.entry = &entry;
    grant.version = version;
    grant.key = key;
    grant.access = static_cast<Access>(entry.access.load(std::memory_order_acquire));
    grant.address = entry.address.load(std::memory_order_acquire);
    grant.bytes = entry.bytes.load(std::memory_order_acquire);
    grant.file = entry.file.load(std::memory_order_acquire);
    grant.file_offset = entry.file_offset.load(std::memory_order_acquire);
    grant.origin = entry.origin.load(std::memory_order_acquire);
    grant.serves = entry.serves.load(std::memory_order_acquire);
    grant.domain = entry.domain.load(std::memory_order_acquire);
    return entry.version.load(std::memory_order_relaxed) == version;
}

}  // namespace verbatim::softnic

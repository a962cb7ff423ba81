#include "windows_borrowed.hpp"

#include <algorithm>

namespace verbatim::objects {

bool BorrowedWindows::take_lend(std::span<const std::byte> payload) {
    wire::Lend head;
    if (!wire::parse(payload, head) || head.window >= wire::kMaxWindows || head.slots == 0 ||
        head.slots > wire::kMaxSlots || head.extents == 0 ||
        payload.size() != head.extents * sizeof(RemoteExtent))
        return false;
    if (head.window > windows_.size()) return false;
    if (head.window == windows_.size()) windows_.emplace_back();
    Window& window = windows_[head.window];
    if (!window.used.empty()) {
        if (window.free != 0) return false;  // it was not given back
        window = Window{};
    }
    const std::uint64_t bytes = head.slots * wire::kSlotBytes;
    for (std::uint32_t i = 0; i < head.extents; ++i) {
        RemoteExtent extent;
        if (!wire::parse(payload, extent) || extent.bytes == 0 ||
            extent.bytes > bytes - window.bytes)
            return false;
        window.extents.push_back(extent);
        window.bytes += extent.bytes;
    }
    if (head.is_last == 0) return true;
    if (window.bytes != bytes) return false;
    window.used.assign(head.slots, 0);
    window.free = head.slots;
    ++changes_;
    return true;
}

bool BorrowedWindows::take_free(std::span<const std::byte> payload) {
    wire::SlotRange range;
    if (!wire::parse(payload, range) || !payload.empty() || range.window >= windows_.size())
        return false;
    Window& window = windows_[range.window];
    if (window.used.empty()) {  // it was given back meanwhile
        ++changes_;
        return true;
    }
    if (range.slot > window.used.size() || range.count > window.used.size() - range.slot)
        return false;
    for (std::uint32_t i = 0; i < range.count; ++i)
        if (std::exchange(window.used[range.slot + i], 0) == 0) return false;
    window.free += range.count;
    ++changes_;
    return true;
}

bool BorrowedWindows::give_back(std::uint32_t number) noexcept {
    if (number >= windows_.size()) return false;
    Window& window = windows_[number];
    if (window.used.empty() || window.free != window.used.size()) return false;
    window = Window{};
    return true;
}

void BorrowedWindows::give_up(std::uint32_t number) noexcept { windows_[number] = Window{}; }

bool BorrowedWindows::is_lent(std::uint32_t number) const noexcept {
    return number < windows_.size() && !windows_[number].used.empty();
}

bool BorrowedWindows::take(std::uint32_t count, TakenSlots& slots) noexcept {
    for (std::size_t number = 0; number < windows_.size(); ++number) {
        Window& window = windows_[number];
        if (window.free < count) continue;
        std::uint32_t run = 0;
        for (std::uint32_t slot = 0; slot < window.used.size(); ++slot) {
            run = window.used[slot] == 0 ? run + 1 : 0;
            if (run != count) continue;
            slots = {static_cast<std::uint32_t>(number), slot + 1 - count, count};
            std::fill_n(window.used.begin() + slots.slot, count, 1);
            window.free -= count;
            return true;
        }
    }
    return false;
}

void BorrowedWindows::untake(const TakenSlots& slots) noexcept {
    Window& window = windows_[slots.window];
    std::fill_n(window.used.begin() + slots.slot, slots.count, 0);
    window.free += slots.count;
}

RemoteExtent BorrowedWindows::place(std::uint32_t window, std::uint64_t offset) const noexcept {
    for (const RemoteExtent& extent : windows_[window].extents) {
        if (offset < extent.bytes)
            return {extent.address + offset, extent.bytes - offset, extent.remote_key, 0};
        offset -= extent.bytes;
    }
    return {};
}

}  // namespace verbatim::objects

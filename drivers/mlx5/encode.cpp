// Requests that name more than memory. Key updates: local invalidation of a key, and windows that
// open and close; fields that the mask does not name are zero. Masked atomics: encode_masked.cpp.
#include <array>
#include <bit>

#include <verbatim/mlx5/encode.hpp>

#include "encode_special.hpp"

namespace verbatim::mlx5 {
namespace {

template <class Segment>
void put_segment(UnitCursor& to, const Segment& segment) noexcept {
    const auto words =
        std::bit_cast<std::array<std::uint64_t, sizeof(Segment) / sizeof(std::uint64_t)>>(segment);
    for (std::size_t i = 0; i < words.size(); i += 2) to.put(words[i], words[i + 1]);
}

void put_invalidation(UnitCursor& to) noexcept {
    KeyUpdateSegment update;
    update.flags = kUpdateInline | kUpdateTranslationOffset | kUpdateCheckQueuePair;
    update.mask = be64(kMaskFree | kMaskQueuePair | kMaskVariant);
    put_segment(to, update);
    KeySegment key;
    key.free = kKeyFree;
    key.queue_pair_variant = be32(kAnyQueuePair << 8);
    put_segment(to, key);
}

std::uint8_t access_of(const WindowBinding& window) noexcept {
    return static_cast<std::uint8_t>((window.remote_read ? kKeyRemoteRead : 0) |
                                     (window.remote_write ? kKeyRemoteWrite : 0) |
                                     (window.remote_atomic ? kKeyRemoteAtomic : 0));
}

KeyUpdateSegment update_of(const WindowBinding& window) noexcept {
    const bool opens = window.bytes != 0;
    KeyUpdateSegment update;
    update.flags = kUpdateInline | kUpdateTranslationOffset;
    std::uint64_t mask = kMaskFree | kMaskVariant;
    if (opens) {
        if (window.of_queue_pair) {
            update.flags |= kUpdateCheckFree;
            mask |= kMaskQueuePair;
        }
        mask |= kMaskBytes | kMaskStart | kMaskAccess;
        update.translation_units = be16(kTranslationBytes / kUnitBytes);
    }
    update.mask = be64(mask);
    return update;
}

void put_window(UnitCursor& to, const WindowBinding& window, std::uint32_t number) noexcept {
    put_segment(to, update_of(window));
    const bool opens = window.bytes != 0;
    const bool bound = opens && window.of_queue_pair;
    KeySegment key;
    key.free = opens ? 0 : kKeyFree;
    key.queue_pair_variant = be32((bound ? number : kAnyQueuePair) << 8 | (window.new_key & 0xff));
    if (opens) {
        key.access = access_of(window);
        key.start = be64(window.zero_based ? 0 : window.address);
        key.bytes = be64(window.bytes);
    }
    put_segment(to, key);
    if (!opens) return;
    to.put(element_word({window.address, window.bytes, window.local_key}),
           be64(window.address).raw());
    for (std::uint32_t i = 1; i < kTranslationBytes / kUnitBytes; ++i) to.put(0, 0);
}

}  // namespace

Errc check_key_update(const WorkRequest& request) noexcept {
    if (!request.elements.empty() || !request.inline_payload.empty()) return Errc::invalid_argument;
    if (request.opcode == Opcode::local_invalidate) return Errc::ok;
    if (request.window == nullptr) return Errc::invalid_argument;
    const WindowBinding& window = *request.window;
    if ((window.window_key ^ window.new_key) > 0xff) return Errc::invalid_argument;
    if (window.of_queue_pair && window.bytes == 0) return Errc::invalid_argument;
    return window.bytes > kMaxElementBytes ? Errc::message_too_large : Errc::ok;
}

std::uint64_t encode_key_update(const WorkRequest& request, const WqeShape& shape,
                                WqePosition position, UnitCursor to) noexcept {
    const bool invalidates = request.opcode == Opcode::local_invalidate;
    const std::uint64_t first =
        control_word(request.opcode, position.index, position.number, shape.units);
    const std::uint8_t fence = request.fence ? std::uint8_t{0} : position.pending_fence;
    const std::uint32_t key = invalidates ? request.invalidated_key : request.window->window_key;
    to.put(first, flags_word(flags_of(request) | fence, key));
    if (invalidates)
        put_invalidation(to);
    else
        put_window(to, *request.window, position.number);
    return first;
}

}  // namespace verbatim::mlx5

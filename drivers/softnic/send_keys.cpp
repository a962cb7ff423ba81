// Updates of this device's own memory keys by the send queue: windows that open and close, local
// invalidation. The wire has one opcode for all of them; flags and mask tell them apart, as libmlx5
// and our encoder set them.
#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

constexpr std::size_t kUpdateUnit = 1, kKeyUnit = 4, kTranslationUnit = 8;
constexpr std::uint64_t kOpeningMask =
    mlx5::kMaskFree | mlx5::kMaskVariant | mlx5::kMaskBytes | mlx5::kMaskStart | mlx5::kMaskAccess;

Access access_of(std::uint8_t key_access) noexcept {
    Access access = Access::local_read;
    if ((key_access & mlx5::kKeyRemoteRead) != 0) access = access | Access::remote_read;
    if ((key_access & mlx5::kKeyRemoteWrite) != 0) access = access | Access::remote_write;
    if ((key_access & mlx5::kKeyRemoteAtomic) != 0) access = access | Access::remote_atomic;
    return access;
}

}  // namespace

SendEngine::Verdict SendEngine::update_key(Request& request) noexcept {
    const auto update = request.wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    const auto key = request.wqe.read<mlx5::KeySegment>(kKeyUnit);
    const std::uint32_t target = request.control.immediate.native();
    if (revocation_.begun()) return revoked(request, revocation_.look(shared_->failure));
    constexpr std::uint64_t kAlways = mlx5::kMaskFree | mlx5::kMaskVariant;
    KeyUpdate result = KeyUpdate::refused;
    if (mlx5::units_of(request.control) < kTranslationUnit ||
        (update.mask.native() & kAlways) != kAlways)
        shared_->failure.set("a key update that neither opens nor closes a window");
    else if ((key.free & mlx5::kKeyFree) == 0)
        result = open_window(request);
    else if ((update.flags & mlx5::kUpdateCheckQueuePair) != 0)
        result = keys_->invalidate(target, shared_->number, shared_->failure);
    else
        result = keys_->close_window(target, shared_->failure);
    // Only this queue pair's peer comes through a window of type 2.
    const bool of_queue_pair = (update.flags & mlx5::kUpdateCheckQueuePair) != 0;
    if (result == KeyUpdate::revoked)
        result = revocation_.begin(*keys_, of_queue_pair ? shared_->number : 0, shared_->failure);
    return revoked(request, result);
}

// The request waits until nobody is inside any more.
SendEngine::Verdict SendEngine::revoked(Request& request, KeyUpdate result) noexcept {
    if (result == KeyUpdate::busy) return Verdict::waits;
    return result == KeyUpdate::done ? Verdict::done : fail(request, Syndrome::window_bind);
}

KeyUpdate SendEngine::open_window(const Request& request) noexcept {
    const auto update = request.wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    const auto key = request.wqe.read<mlx5::KeySegment>(kKeyUnit);
    const std::uint32_t queue_pair_variant = key.queue_pair_variant.native();
    const bool of_queue_pair = (update.flags & mlx5::kUpdateCheckFree) != 0;
    const bool complete = (update.mask.native() & kOpeningMask) == kOpeningMask &&
                          mlx5::units_of(request.control) > kTranslationUnit &&
                          update.translation_units.native() != 0;
    if (!complete || (of_queue_pair && queue_pair_variant >> 8 != shared_->number)) {
        shared_->failure.set("a window that does not say what it opens, or for another queue pair");
        return KeyUpdate::refused;
    }
    const auto memory = request.wqe.read<mlx5::DataSegment>(kTranslationUnit);
    const std::uint32_t count = memory.byte_count.native();
    WindowOpening opening;
    opening.window_key = request.control.immediate.native();
    opening.variant = static_cast<std::uint8_t>(queue_pair_variant);
    opening.type = of_queue_pair ? WindowType::queue_pair : WindowType::domain;
    opening.queue_pair = shared_->number;
    opening.domain = shared_->domain;
    opening.region_key = memory.key.native();
    opening.address = memory.address.native();
    opening.bytes = count == 0 ? mlx5::kMaxElementBytes : count;
    opening.start = key.start.native();
    opening.access = access_of(key.access);
    if (opening.bytes != key.bytes.native()) {
        shared_->failure.set("a window of {} bytes that leads to {}", key.bytes.native(),
                             opening.bytes);
        return KeyUpdate::refused;
    }
    return keys_->open_window(opening, shared_->failure);
}

}  // namespace verbatim::softnic

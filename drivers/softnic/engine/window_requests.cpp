// The wire has one opcode for all of these requests; flags and mask tell them apart, as libmlx5 and
// our encoder set them.
#include "window_requests.hpp"

#include <verbatim/mlx5/work_request.hpp>

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

PortAnswer WindowRequests::execute(const SendRequest& request) noexcept {
    const KeyUpdate result =
        revocation_.begun() ? revocation_.look(shared_->failure.text) : update_and_wait(request);
    if (result == KeyUpdate::busy) return kPortWaits;
    if (result == KeyUpdate::done) return {};
    return refusal(Syndrome::window_bind);
}

// A key that worked until now may be in use.
KeyUpdate WindowRequests::update_and_wait(const SendRequest& request) noexcept {
    const KeyUpdate result = update(request);
    if (result != KeyUpdate::revoked) return result;
    // Only this queue pair's peer comes through a window of type 2.
    const auto update = request.wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    const bool of_queue_pair = (update.flags & mlx5::kUpdateCheckQueuePair) != 0;
    return revocation_.begin(*keys_, of_queue_pair ? shared_->traits.number : 0,
                             shared_->failure.text);
}

KeyUpdate WindowRequests::update(const SendRequest& request) noexcept {
    const auto update = request.wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    const auto key = request.wqe.read<mlx5::KeySegment>(kKeyUnit);
    const std::uint32_t target = request.control.immediate.native();
    constexpr std::uint64_t kAlways = mlx5::kMaskFree | mlx5::kMaskVariant;
    if (request.units() < kTranslationUnit || (update.mask.native() & kAlways) != kAlways) {
        shared_->failure.text.set("a key update that neither opens nor closes a window");
        return KeyUpdate::refused;
    }
    if ((key.free & mlx5::kKeyFree) == 0) return open(request);
    if ((update.flags & mlx5::kUpdateCheckQueuePair) != 0)
        return keys_->windows().invalidate(target, shared_->traits.number, shared_->failure.text);
    return keys_->windows().close(target, shared_->failure.text);
}

KeyUpdate WindowRequests::open(const SendRequest& request) noexcept {
    const auto update = request.wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    const auto key = request.wqe.read<mlx5::KeySegment>(kKeyUnit);
    const std::uint32_t queue_pair_variant = key.queue_pair_variant.native();
    const bool of_queue_pair = (update.flags & mlx5::kUpdateCheckFree) != 0;
    const bool complete = (update.mask.native() & kOpeningMask) == kOpeningMask &&
                          request.units() > kTranslationUnit &&
                          update.translation_units.native() != 0;
    if (!complete || (of_queue_pair && queue_pair_variant >> 8 != shared_->traits.number)) {
        shared_->failure.text.set(
            "a window that does not say what it opens, or for another queue pair");
        return KeyUpdate::refused;
    }
    const auto memory = request.wqe.read<mlx5::DataSegment>(kTranslationUnit);
    const std::uint32_t count = memory.byte_count.native();
    WindowOpening opening;
    opening.window_key = request.control.immediate.native();
    opening.variant = static_cast<std::uint8_t>(queue_pair_variant);
    opening.type = of_queue_pair ? WindowType::queue_pair : WindowType::domain;
    opening.queue_pair = shared_->traits.number;
    opening.domain = shared_->traits.domain;
    opening.region_key = memory.key.native();
    opening.address = memory.address.native();
    opening.bytes = count == 0 ? mlx5::kMaxElementBytes : count;
    opening.start = key.start.native();
    opening.access = access_of(key.access);
    if (opening.bytes != key.bytes.native()) {
        shared_->failure.text.set("a window of {} bytes that leads to {}", key.bytes.native(),
                                  opening.bytes);
        return KeyUpdate::refused;
    }
    return keys_->windows().open(opening, shared_->failure.text);
}

}  // namespace verbatim::softnic

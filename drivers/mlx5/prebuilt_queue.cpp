// The cold half of prebuilt send queues: filling the slots, and the slow answer to "are its regions
// still there?".
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/wqe_image.hpp>

namespace verbatim::mlx5 {
namespace {

constexpr std::size_t kWordsPerBlock = kBlockBytes / sizeof(std::uint64_t);

}  // namespace

PrebuiltRing::PrebuiltRing(const QueuePairView& view, const WorkRequest& request,
                           NamedRegions regions, const volatile std::uint64_t* invalidation_epoch)
    : SendRing(view) {
    const WqeImage image(*this, request);
    const std::uint32_t slot_blocks = std::bit_ceil(image.blocks());
    const std::string object = "prebuilt send queue of queue pair " + std::to_string(view.number);
    if (slot_blocks > blocks())
        throw Error(Errc::message_too_large, object,
                    "a slot takes " + std::to_string(slot_blocks) + " blocks, the queue has " +
                        std::to_string(blocks()),
                    "create the queue pair with more send blocks");
    if (!regions.empty() && invalidation_epoch == nullptr)
        throw Error(Errc::invalid_argument, object,
                    "it names memory regions, but does not know when they are released",
                    "construct it with Device::invalidation_epoch()");
    standard_register_ = true;  // words fit any
    single_blocks_ = slot_blocks == 1;
    set_stop();
    image_.assign(image.words(), image.words() + image.blocks() * kWordsPerBlock);
    fillers_ = slot_blocks - image.blocks();
    first_word_ = image_[0] | index_bits(fillers_);
    flags_word_ = image_[1];
    filler_mask_ = slot_blocks - 1;
    for (const MemoryRegion* region : regions) regions_.push_back(region->alive());
    if (!regions.empty()) {
        epoch_ = invalidation_epoch;
        valid_at_ = __atomic_load_n(epoch_, __ATOMIC_ACQUIRE);
    }
    if (!valid())
        throw Error(Errc::invalid_argument, object, "a memory region it names is released already");
    fill();
}

void PrebuiltRing::fill() noexcept {
    constexpr std::uint64_t kControlUnits = sizeof(ControlSegment) / kUnitBytes;
    const std::uint32_t slot_blocks = filler_mask_ + 1;
    for (std::uint32_t at = 0; at < blocks(); ++at) {
        std::byte* const to = ring_ + std::size_t{at} * kBlockBytes;
        const std::uint32_t place = at % slot_blocks;
        if (place >= fillers_) {
            std::memcpy(to, &image_[(place - fillers_) * kWordsPerBlock], kBlockBytes);
            continue;
        }
        const std::uint64_t no_op[2] = {control_word(Opcode::nop, at, number_, kControlUnits), 0};
        std::memset(to, 0, kBlockBytes);
        std::memcpy(to, no_op, sizeof no_op);
    }
}

void PrebuiltRing::reset() noexcept {
    restart();
    fill();
}

bool PrebuiltRing::valid() const noexcept {
    return std::all_of(regions_.begin(), regions_.end(),
                       [](const auto& alive) { return alive->load(std::memory_order_acquire); });
}

bool PrebuiltRing::look_at_regions() noexcept {
    const std::uint64_t epoch = __atomic_load_n(epoch_, __ATOMIC_ACQUIRE);
    if (!valid()) return false;
    valid_at_ = epoch;
    return true;
}

}  // namespace verbatim::mlx5

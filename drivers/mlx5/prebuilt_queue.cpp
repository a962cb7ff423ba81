// The cold half of prebuilt queues: filling the slots, and what ends them.
#include <bit>
#include <cstring>
#include <string>

#include <verbatim/mlx5/prebuilt_queue.hpp>

namespace verbatim::mlx5 {

PrebuiltRing::PrebuiltRing(const QueuePairView& view, std::uint32_t wqe_blocks,
                           NamedRegions regions, const volatile std::uint64_t* invalidation_epoch)
    : SendRing(view), regions_(regions, invalidation_epoch, view.number) {
    const std::uint32_t slot_blocks = std::bit_ceil(wqe_blocks);
    const std::string object = "prebuilt queue of queue pair " + std::to_string(view.number);
    if (slot_blocks > blocks())
        throw Error(Errc::message_too_large, object,
                    "a slot takes " + std::to_string(slot_blocks) + " blocks, the queue has " +
                        std::to_string(blocks()),
                    "create the queue pair with more send blocks");
    if (!regions_.all_alive())
        throw Error(Errc::invalid_argument, object, "a memory region it names is released already",
                    "keep its regions registered for as long as the queue lives");
    plain_register_ = true;  // words fit any
    single_blocks_ = slot_blocks == 1;
    fillers_ = slot_blocks - wqe_blocks;
    filler_mask_ = slot_blocks - 1;
}

void PrebuiltRing::fill(const std::uint64_t* image) noexcept {
    constexpr std::uint64_t kControlUnits = sizeof(ControlSegment) / kUnitBytes;
    constexpr std::size_t kWordsPerBlock = kBlockBytes / sizeof(std::uint64_t);
    image_ = image;
    for (std::uint32_t at = 0; at < blocks(); ++at) {
        std::byte* const to = ring_ + std::size_t{at} * kBlockBytes;
        const std::uint32_t place = at & filler_mask_;
        if (place >= fillers_) {
            std::memcpy(to, image + (place - fillers_) * kWordsPerBlock, kBlockBytes);
            continue;
        }
        const std::uint64_t no_op[2] = {control_word(Opcode::nop, at, number_, kControlUnits), 0};
        std::memset(to, 0, kBlockBytes);
        std::memcpy(to, no_op, sizeof no_op);
    }
}

void PrebuiltRing::reset() noexcept {
    restart();
    fill(image_);
}

void PrebuiltRing::release() noexcept {
    released_ = true;
    plain_register_ = false;  // the window stays closed
    step_over(0);
    regions_.forget();
}

}  // namespace verbatim::mlx5

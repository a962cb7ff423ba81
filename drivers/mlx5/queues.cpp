// The cold half of the queues: construction, reset, lists.
#include <bit>
#include <utility>

#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "queue_limits.hpp"

namespace verbatim::mlx5 {
namespace {

const QueuePairView& checked_for_send(const QueuePairView& view) {
    require(view.transport == Transport::reliable_connection, view,
            "its sends are not of a reliable connection");
    require(aligned(view.send_buffer, kBlockBytes), view, "the send buffer is null or misaligned");
    require(std::has_single_bit(view.send_blocks) && view.send_blocks <= kMaxEntries, view,
            "the number of send blocks is not a power of two up to 32768");
    require(aligned(view.doorbell_record, alignof(std::uint32_t)), view,
            "the doorbell record is null or misaligned");
    require(aligned(view.doorbell_register, view.blueflame_bytes != 0 ? kBlockBytes : 8), view,
            "the doorbell register is null or misaligned");
    require(view.blueflame_bytes % kBlockBytes == 0, view,
            "the BlueFlame size is not in whole blocks");
    return view;
}

const QueuePairView& checked_for_receive(const QueuePairView& view) {
    require(aligned(view.receive_buffer, kUnitBytes), view,
            "the receive buffer is null or misaligned");
    require(std::has_single_bit(view.receive_entries) && view.receive_entries <= kMaxEntries, view,
            "the number of receive entries is not a power of two up to 32768");
    require(view.receive_stride_log2 >= 4 && view.receive_stride_log2 <= 10, view,
            "the receive stride is not 16 to 1024 bytes");
    require(aligned(view.doorbell_record, alignof(std::uint32_t)), view,
            "the doorbell record is null or misaligned");
    return view;
}

// What fits in a WQE of kMaxWqeUnits beside control, address and operands.
constexpr std::uint32_t kMaxElements = kMaxWqeUnits - 3;
constexpr std::uint32_t kMaxInlineBytes = (kMaxWqeUnits - 2) * kUnitBytes - sizeof(InlineHeader);
static_assert(kMaxInlineBytes <= kInlineCountMask);

}  // namespace

void call_hook(const Doorbell& bell, const volatile void* half) noexcept {
    bell.hook.call(bell.hook.context, half);
}

constinit SendQueue SendQueue::closed_;

SendRing::SendRing(const QueuePairView& view)
    : ring_(checked_for_send(view).send_buffer),
      ids_(std::make_unique<std::uint64_t[]>(view.send_blocks)),
      bell_(Doorbell::of(view)),
      limit_(view.send_blocks),
      mask_(view.send_blocks - 1),
      number_(view.number),
      plain_register_(view.blueflame_bytes == kBlueFlameBytes),
      limits_{.max_inline_bytes = std::min(view.max_inline_bytes, kMaxInlineBytes),
              .max_elements = std::min(view.max_send_elements, kMaxElements),
              .masked_atomics = view.masked_atomics,
              .atomics = view.atomics,
              .big_endian_results = view.big_endian_results} {
    window_.close(0, whole_ring());
}

bool SendRing::open_window(std::uint32_t blocks) noexcept {
    if (pending_fence_ == 0 && plain_register_) window_.open(free_blocks(), whole_ring());
    return window_.admits(blocks);
}

SendQueue::Way SendQueue::find_way(std::uint32_t blocks) noexcept {
    if (!window_.carries(blocks)) return open_window(blocks) ? Way::admitted : Way::by_image;
    const bool contiguous = (window_.next() & mask_) + blocks <= mask_ + 1;
    const bool plain = pending_fence_ == 0 && plain_register_;
    if (!contiguous || !plain || blocks > free_blocks()) return Way::by_image;
    close_window();
    return Way::carrying;
}

SendQueue::SendQueue(const QueuePairView& view, const volatile std::uint64_t* invalidation_epoch)
    : SendRing(view), epoch_(invalidation_epoch) {}

Errc SendQueue::post(std::span<const WorkRequest> requests) noexcept {
    std::uint64_t blocks = 0;
    for (const WorkRequest& request : requests) {
        if (const Errc error = check(request, limits_); error != Errc::ok) return error;
        blocks += shape_of(request).blocks();
    }
    if (const Errc error = admit(blocks); error != Errc::ok) return error;
    if (requests.size() == 1) return post(requests.front());
    std::uint64_t first_word = 0;
    for (const WorkRequest& request : requests) first_word = place(request, shape_of(request));
    if (!requests.empty()) ring(first_word);
    return Errc::ok;
}

std::uint64_t SendQueue::place(const WorkRequest& request, const WqeShape& shape) noexcept {
    close_window();
    expect_result_of(request);
    const std::uint32_t index = window_.next();
    const std::uint8_t fence = take_fence();
    if (is_key_update(request.opcode)) pending_fence_ = kSmallFence;
    UnitCursor cursor(ring_ + std::size_t{index & mask_} * kBlockBytes, ring_,
                      ring_ + std::size_t{blocks()} * kBlockBytes);
    const std::uint64_t first_word = encode(request, shape, {number_, index, fence}, cursor);
    settle(request.id, shape.blocks());
    return first_word;
}

Errc SendQueue::post_carefully(const WorkRequest& request) noexcept {
    if (const Errc error = check(request, limits_); error != Errc::ok) return error;
    const WqeShape shape = shape_of(request);
    const std::uint32_t index = window_.next(), blocks = shape.blocks();
    if (const Errc error = admit(blocks); error != Errc::ok) return error;
    const std::uint64_t first_word = place(request, shape);
    ring_doorbell(bell_, window_.record(), DoorbellRing{first_word, ring_, mask_, index, blocks});
    return Errc::ok;
}

SendQueue::Last SendQueue::place_image(std::uint64_t id, const std::uint64_t* image,
                                       std::uint32_t blocks) noexcept {
    close_window();
    const std::uint32_t index = window_.next();
    const std::uint64_t first_word = image[0] | index_bits(index);
    std::byte* const wqe = window_.place().block;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        std::byte* const to = ring_ + std::size_t{(index + i) & mask_} * kBlockBytes;
        Block::load(image + std::size_t{i} * (kBlockBytes / sizeof *image)).store(to);
    }
    std::memcpy(wqe, &first_word, sizeof first_word);
    std::byte& flags = wqe[offsetof(ControlSegment, fence_completion_event)];
    const std::byte fence{take_fence()};
    if ((flags & std::byte{kFence}) == std::byte{0}) flags |= fence;
    settle(id, blocks);
    return {first_word, wqe};
}

Errc SendQueue::post_image(std::uint64_t id, const std::uint64_t* image,
                           std::uint32_t blocks) noexcept {
    if (const Errc error = admit(blocks); error != Errc::ok) return error;
    const std::uint32_t index = window_.next();
    const std::uint64_t first_word = place_image(id, image, blocks).first_word;
    ring_doorbell(bell_, window_.record(), DoorbellRing{first_word, ring_, mask_, index, blocks});
    return Errc::ok;
}

void SendQueue::add(Validity& operation, std::uint32_t blocks) noexcept {
    prepared_.add(operation, *this);
    if (blocks != 1) single_blocks_ = false;
}

Opcode SendRing::key_update_at(std::uint16_t counter) const noexcept {
    KeyUpdateSegment update;
    std::memcpy(&update, block_at(counter) + sizeof(ControlSegment), sizeof update);
    return key_update_opcode(update);
}

std::uint32_t SendRing::atomic_bytes_at(std::uint16_t counter) const noexcept {
    ControlSegment control;
    std::memcpy(&control, block_at(counter), sizeof control);
    return modifier_of(control) == kMaskedModifier4 ? 4 : 8;
}

std::uint32_t SendRing::outstanding() const noexcept {
    std::uint32_t count = 0;
    const std::uint32_t end = oldest() + blocks_outstanding();
    for (std::uint32_t at = oldest(); at != end; at += blocks_at(static_cast<std::uint16_t>(at)))
        if (!is_filler(static_cast<std::uint16_t>(at))) ++count;
    return count;
}

void SendRing::restart() noexcept {
    window_.close(0, whole_ring());
    limit_ = blocks();
    pending_fence_ = 0;
    ++generation_;
    __atomic_store_n(bell_.record, 0, __ATOMIC_RELEASE);
}

void SendQueue::reset() noexcept {
    restart();
    prepared_.revoke_all();
}

ReceiveQueue::ReceiveQueue(const QueuePairView& view)
    : ring_(checked_for_receive(view).receive_buffer),
      ids_(std::make_unique<std::uint64_t[]>(view.receive_entries)),
      record_(view.doorbell_record + kRecordReceive),
      limit_(view.receive_entries),
      mask_(view.receive_entries - 1),
      stride_log2_(view.receive_stride_log2),
      max_elements_(std::min(view.max_receive_elements, 1U << (view.receive_stride_log2 - 4))),
      number_(view.number),
      hook_(view.receive_hook) {}

void ReceiveQueue::reset() noexcept {
    next_ = 0;
    limit_ = entries();
    lapped_ = false;
    __atomic_store_n(record_, 0, __ATOMIC_RELEASE);
}

}  // namespace verbatim::mlx5

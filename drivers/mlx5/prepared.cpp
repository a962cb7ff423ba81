// The cold half of prepared operations: encoding, and the slow answer to "is all it names still
// there?".
#include <string>

#include <verbatim/mlx5/prepared.hpp>

namespace verbatim::mlx5 {
namespace {

// No sum of epoch and generation reaches this: the operation is invalid for good.
constexpr std::uint64_t kNever = ~std::uint64_t{0};

std::string named(const SendQueue& queue) {
    return "prepared operation of queue pair " + std::to_string(queue.number());
}

const WorkRequest& checked(const SendQueue& queue, const WorkRequest& request) {
    const Errc error = check(request, queue.limits());
    if (error == Errc::ok && shape_of(request).blocks() <= queue.blocks()) return request;
    throw Error(error == Errc::ok ? Errc::message_too_large : error, named(queue),
                "the queue can never take this request",
                "it takes " + std::to_string(queue.limits().max_inline_bytes) +
                    " inline bytes and " + std::to_string(queue.limits().max_elements) +
                    " elements");
}

}  // namespace

PreparedBinding::PreparedBinding(SendQueue& queue, NamedRegions regions)
    : queue_(&queue),
      valid_at_(__atomic_load_n(queue.invalidation_epoch(), __ATOMIC_ACQUIRE) + queue.generation()),
      generation_(queue.generation()) {
    if (!regions.empty() && !queue.watches_regions()) {
        throw Error(Errc::invalid_argument, named(queue),
                    "it names memory regions, but its queue does not know when they are released",
                    "construct the SendQueue with Device::invalidation_epoch()");
    }
    tokens_.reserve(regions.size());
    for (const MemoryRegion* region : regions) tokens_.push_back(region->alive());
}

Errc PreparedBinding::replace(std::size_t index, const MemoryRegion& region) noexcept {
    if (index >= tokens_.size()) return Errc::invalid_argument;
    tokens_[index] = region.alive();
    return Errc::ok;
}

bool PreparedBinding::still_valid() const noexcept {
    if (valid_at_ == kNever || queue_->generation() != generation_) return false;
    for (const Token& token : tokens_) {
        if (!token->load(std::memory_order_acquire)) return false;
    }
    return true;
}

bool PreparedBinding::recheck() noexcept {
    // The epoch first: a region released after this load moves it again.
    const std::uint64_t epoch = __atomic_load_n(queue_->invalidation_epoch(), __ATOMIC_ACQUIRE);
    const bool valid = still_valid();
    valid_at_ = valid ? epoch + generation_ : kNever;
    return valid;
}

WqeImage::WqeImage(const SendQueue& queue, const WorkRequest& request)
    : shape_(shape_of(checked(queue, request))),
      opcode_(request.opcode),
      elements_(static_cast<std::uint32_t>(request.elements.size())),
      inline_bytes_(static_cast<std::uint32_t>(request.inline_payload.size())) {
    const std::size_t bytes = std::size_t{shape_.blocks()} * kBlockBytes;
    words_ = std::make_unique<std::uint64_t[]>(bytes / sizeof(std::uint64_t));
    auto* begin = reinterpret_cast<std::byte*>(words_.get());
    encode(request, shape_, {queue.number(), 0}, UnitCursor(begin, begin, begin + bytes));
}

PreparedList::PreparedList(SendQueue& queue, std::span<const WorkRequest> requests,
                           NamedRegions regions)
    : binding_(queue, regions) {
    std::uint64_t blocks = 0;
    images_.reserve(requests.size());
    for (const WorkRequest& request : requests) {
        images_.emplace_back(queue, request);
        blocks += images_.back().blocks();
    }
    if (blocks > queue.blocks()) {
        throw Error(Errc::message_too_large, named(queue),
                    "the list needs " + std::to_string(blocks) + " blocks, the queue has " +
                        std::to_string(queue.blocks()),
                    "split the list or create the queue pair with more send blocks");
    }
    blocks_ = static_cast<std::uint32_t>(blocks);
}

Errc PreparedList::post(std::span<const std::uint64_t> ids) noexcept {
    if (!binding_.check()) return Errc::invalid_prepared;
    if (ids.size() != images_.size()) return Errc::invalid_argument;
    SendQueue& queue = binding_.queue();
    if (blocks_ > queue.free_blocks()) return Errc::would_block;
    std::uint64_t first_word = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
        first_word = queue.place_image(ids[i], images_[i].words(), images_[i].blocks());
    }
    if (!images_.empty()) queue.ring(first_word);
    return Errc::ok;
}

PreparedWrite8::PreparedWrite8(SendQueue& queue, Target target)
    : control_(control_word(Opcode::write, 0, queue.number(), 3)),
      remote_{be64(target.address).raw(), word(be32(target.key), be32(0))},
      header_(_mm_cvtsi64_si128(static_cast<long long>(inline_header(8).raw()))),
      binding_(queue, {}) {
    constexpr std::array<std::byte, 8> kPayload{};
    WorkRequest request;
    request.opcode = Opcode::write;
    request.inline_payload = kPayload;
    checked(queue, request);
}

}  // namespace verbatim::mlx5

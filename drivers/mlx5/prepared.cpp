// The cold half of prepared operations: encoding, and the slow answer to "is all it names still
// there?".
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <verbatim/mlx5/prepared.hpp>

namespace verbatim::mlx5 {
namespace {

std::string named(const SendRing& queue) {
    return "prepared operation of queue pair " + std::to_string(queue.number());
}

const WorkRequest& checked(const SendRing& queue, const WorkRequest& request) {
    const Errc error = check(request, queue.limits());
    const WqeShape shape = shape_of(request, queue.limits().transport);
    if (error == Errc::ok && shape.blocks() <= queue.blocks()) return request;
    throw Error(error == Errc::ok ? Errc::message_too_large : error, named(queue),
                "the queue can never take this request",
                "it takes " + std::to_string(queue.limits().max_inline_bytes) +
                    " inline bytes and " + std::to_string(queue.limits().max_elements) +
                    " elements");
}

}  // namespace

void Validity::revoke() noexcept {
    unlink();
    queue_ = &SendQueue::closed();
    epoch_ = &kNoEpoch;
    valid_at_ = ~kNoEpoch;  // never unchanged() again
    revoked_ = true;
}

PreparedBinding::PreparedBinding(SendQueue& queue, NamedRegions regions) {
    if (!regions.empty() && queue.invalidation_epoch() == nullptr) {
        throw Error(Errc::invalid_argument, named(queue),
                    "it names memory regions, but its queue does not know when they are released",
                    "construct the SendQueue with Device::invalidation_epoch()");
    }
    tokens_.reserve(regions.size());
    for (const MemoryRegion* region : regions) tokens_.push_back(region->alive());
    // Before the tokens are looked at, so that no release falls between.
    queue.prepared().add(validity_, queue, regions.empty() ? nullptr : queue.invalidation_epoch());
    if (!all_alive()) validity_.revoke();
}

Errc PreparedBinding::replace(std::size_t index, const MemoryRegion& region) noexcept {
    if (index >= tokens_.size()) return Errc::invalid_argument;
    tokens_[index] = region.alive();
    return Errc::ok;
}

bool PreparedBinding::all_alive() const noexcept {
    for (const Token& token : tokens_) {
        if (!token->load(std::memory_order_acquire)) return false;
    }
    return true;
}

bool PreparedBinding::recheck() noexcept {
    if (validity_.revoked()) return false;
    const std::uint64_t epoch = validity_.epoch();
    if (all_alive()) {
        validity_.confirm(epoch);
        return true;
    }
    validity_.revoke();
    return false;
}

WqeImage::WqeImage(SendRing& queue, const WorkRequest& request)
    : shape_(shape_of(checked(queue, request), queue.limits().transport)),
      opcode_(travels_masked(request) ? masked_opcode(request.opcode) : request.opcode),
      elements_(static_cast<std::uint32_t>(request.elements.size())),
      inline_bytes_(static_cast<std::uint32_t>(request.inline_payload.size())),
      remote_(names_remote_memory(request.opcode)),
      operands_(operands_of(request)) {
    if (is_atomic(opcode_)) {
        atomic_bytes_ = request.elements[0].bytes;
        address_mask_ = atomic_bytes_ - 1;
        queue.expect_result_of(request);
    }
    const std::size_t bytes = std::size_t{shape_.blocks()} * kBlockBytes;
    words_ = std::make_unique<std::uint64_t[]>(bytes / sizeof(std::uint64_t));
    auto* begin = reinterpret_cast<std::byte*>(words_.get());
    encode(request, shape_, {queue.number(), 0}, UnitCursor(begin, begin, begin + bytes));
}

Errc WqeImage::set_target(const DatagramTarget& target) noexcept {
    if (!shape_.datagram || !can_be_target(target)) return Errc::invalid_argument;
    const DatagramSegment segment = datagram_segment(target);
    std::memcpy(words_.get() + sizeof(ControlSegment) / sizeof(std::uint64_t), &segment,
                sizeof segment);
    return Errc::ok;
}

Errc WqeImage::write_operands() noexcept {
    const auto words = masked_words(opcode_, atomic_bytes_, operands_);
    const std::uint32_t count = 2 * masked_operand_units(opcode_, atomic_bytes_);
    std::copy_n(words.begin(), count, words_.get() + 4);
    return Errc::ok;
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
    if (blocks_ > queue.free_blocks()) return binding_.refusal(Errc::would_block);
    std::uint64_t first_word = 0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
        first_word = queue.place_image(ids[i], images_[i].words(), images_[i].blocks());
    }
    if (!images_.empty()) queue.ring(first_word);
    return Errc::ok;
}

namespace {
constexpr std::array<std::byte, 8> kNoPayload{};
WorkRequest write8(const PreparedWrite8::Target& target) {
    WorkRequest request;
    request.opcode = Opcode::write;
    request.remote_key = target.key;
    request.inline_payload = kNoPayload;
    return request;
}
}  // namespace

PreparedWrite8::PreparedWrite8(SendQueue& queue, Target target)
    : fixed_(queue, write8(target)), remote_address_(target.address) {}

void require_shape(const WorkRequest& request, const ShapeFacts& facts, std::uint32_t queue_pair) {
    const std::string object = "prepared operation of queue pair " + std::to_string(queue_pair);
    if (facts.transport == Transport::unreliable_datagram)
        throw Error(Errc::invalid_argument, object,
                    "datagrams name a peer each: no fixed shape does", "use Prepared");
    if (request.opcode == facts.opcode && request.inline_payload.size() == facts.inline_bytes &&
        request.elements.size() == facts.elements)
        return;
    throw Error(Errc::invalid_argument,
                "prepared operation of queue pair " + std::to_string(queue_pair),
                "its type says " + std::to_string(facts.inline_bytes) + " inline bytes and " +
                    std::to_string(facts.elements) + " elements, the request has " +
                    std::to_string(request.inline_payload.size()) + " and " +
                    std::to_string(request.elements.size()) + ", or another opcode");
}

}  // namespace verbatim::mlx5

// The cold half of prepared operations: encoding, and the slow answer to "is all it names still
// there?".
#include <algorithm>
#include <array>
#include <string>

#include <verbatim/mlx5/prepared.hpp>

namespace verbatim::mlx5 {
namespace {

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

WqeImage::WqeImage(const SendQueue& queue, const WorkRequest& request)
    : shape_(shape_of(checked(queue, request))),
      opcode_(travels_masked(request) ? masked_opcode(request.opcode) : request.opcode),
      elements_(static_cast<std::uint32_t>(request.elements.size())),
      inline_bytes_(static_cast<std::uint32_t>(request.inline_payload.size())),
      remote_(names_remote_memory(request.opcode)),
      operands_(operands_of(request)) {
    if (is_atomic(opcode_)) {
        atomic_bytes_ = request.elements[0].bytes;
        address_mask_ = atomic_bytes_ - 1;
    }
    const std::size_t bytes = std::size_t{shape_.blocks()} * kBlockBytes;
    words_ = std::make_unique<std::uint64_t[]>(bytes / sizeof(std::uint64_t));
    auto* begin = reinterpret_cast<std::byte*>(words_.get());
    encode(request, shape_, {queue.number(), 0}, UnitCursor(begin, begin, begin + bytes));
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

PreparedWrite8::PreparedWrite8(SendQueue& queue, Target target)
    : control_(_mm_set_epi64x(
          static_cast<long long>(flags_word(kCompletionAlways, 0)),
          static_cast<long long>(control_word(Opcode::write, 0, queue.number(), 3)))),
      header_(_mm_cvtsi64_si128(static_cast<long long>(inline_header(8).raw()))),
      remote_address_(be64(target.address).raw()),
      remote_key_(word(be32(target.key), be32(0))) {
    constexpr std::array<std::byte, 8> kPayload{};
    WorkRequest request;
    request.opcode = Opcode::write;
    request.inline_payload = kPayload;
    checked(queue, request);
    queue.prepared().add(validity_, queue, nullptr);
}

void PreparedWrite8::set_signaled(bool on) noexcept {
    const __m128i bit = _mm_set_epi64x(static_cast<long long>(flags_word(kCompletionAlways, 0)), 0);
    control_ = on ? _mm_or_si128(control_, bit) : _mm_andnot_si128(bit, control_);
}

}  // namespace verbatim::mlx5

// The cold half of prepared operations: encoding, and the slow answer to "is all it names still
// there?".
#include <algorithm>
#include <string>

#include <verbatim/mlx5/prepared.hpp>

namespace verbatim::mlx5 {
namespace {

std::string named(std::uint32_t queue_pair) {
    return "prepared operation of queue pair " + std::to_string(queue_pair);
}

void check_shape(const WorkRequest& request, const ShapeFacts& facts, std::uint32_t queue_pair) {
    if (request.opcode == facts.opcode && request.inline_payload.size() == facts.inline_bytes &&
        request.elements.size() == facts.elements)
        return;
    throw Error(Errc::invalid_argument, named(queue_pair),
                "its type says " + std::to_string(facts.inline_bytes) + " inline bytes and " +
                    std::to_string(facts.elements) + " elements, the request has " +
                    std::to_string(request.inline_payload.size()) + " and " +
                    std::to_string(request.elements.size()) + ", or another opcode",
                "give the request and the type the same opcode, inline bytes and elements");
}

void check_limits(const WorkRequest& request, const SendRing& queue) {
    Errc error = check(request, queue.limits());
    if (error == Errc::ok && shape_of(request).blocks() > queue.blocks())
        error = Errc::message_too_large;
    // Four bytes, which travel as a masked one, another shape.
    if (error == Errc::ok && travels_masked(request)) error = Errc::invalid_argument;
    if (error == Errc::ok) return;
    throw Error(error, named(queue.number()), "the queue can never take this request",
                "it takes " + std::to_string(queue.limits().max_inline_bytes) +
                    " inline bytes and " + std::to_string(queue.limits().max_elements) +
                    " elements; atomics are of 8 aligned bytes");
}

}  // namespace

void encode_image(SendRing& queue, const WorkRequest& asked, const ShapeFacts& facts,
                  std::span<std::uint64_t> words) {
    constexpr static std::byte kZeros[kMaxWqeUnits * kUnitBytes]{};
    WorkRequest request = asked;
    if (request.inline_payload.empty())
        request.inline_payload = std::span(kZeros).first(facts.inline_bytes);
    check_shape(request, facts, queue.number());
    check_limits(request, queue);
    queue.expect_result_of(request);
    const WqeShape shape = shape_of(request);
    auto* const begin = reinterpret_cast<std::byte*>(words.data());
    encode_plain(request, shape, {queue.number(), 0}, UnitWriter(begin));
    // Payload is put between zeros.
    if (facts.inline_bytes == 0) return;
    const std::size_t payload = std::size_t{shape.payload_unit} * 2;
    words[payload] &= 0xffffffff;  // leaves the header
    std::ranges::fill(words.subspan(payload + 1), 0);
}

void Validity::revoke() noexcept {
    unlink();
    queue_ = &SendQueue::closed();
    revoked_ = true;
}

RegionWatch::RegionWatch(NamedRegions regions, const volatile std::uint64_t* epoch,
                         std::uint32_t queue_pair) {
    if (regions.empty()) return;
    if (epoch == nullptr)
        throw Error(Errc::invalid_argument, named(queue_pair),
                    "it names memory regions, but its queue does not know when they are released",
                    "construct the queue with Device::invalidation_epoch()");
    epoch_ = epoch;
    tokens_.reserve(regions.size());
    for (const MemoryRegion* region : regions) tokens_.push_back(region->alive());
    // Before anybody looks at the tokens, so that no release falls between.
    seen_ = __atomic_load_n(epoch_, __ATOMIC_ACQUIRE);
}

bool RegionWatch::all_alive() const noexcept {
    return std::ranges::all_of(
        tokens_, [](const Token& token) { return token->load(std::memory_order_acquire); });
}

bool RegionWatch::look() noexcept {
    const std::uint64_t epoch = __atomic_load_n(epoch_, __ATOMIC_ACQUIRE);
    if (!all_alive()) return false;
    seen_ = epoch;
    return true;
}

Errc RegionWatch::replace(std::size_t index, const MemoryRegion& region) noexcept {
    if (index >= tokens_.size()) return Errc::invalid_argument;
    tokens_[index] = region.alive();
    return Errc::ok;
}

PreparedBinding::PreparedBinding(SendQueue& queue, NamedRegions regions, std::uint32_t blocks)
    : regions_(regions, queue.invalidation_epoch(), queue.number()) {
    queue.add(validity_, blocks);
    if (!regions_.all_alive()) validity_.revoke();
}

bool PreparedBinding::look() noexcept {
    if (!validity_.revoked() && regions_.check()) return true;
    validity_.revoke();
    return false;
}

}  // namespace verbatim::mlx5

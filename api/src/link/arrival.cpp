#include "arrival.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace verbatim::objects {

void FreePrivate::operator()(std::byte* memory) const noexcept {
    ::operator delete (memory, std::align_val_t{4096});
}

PrivateMemory private_memory(std::uint64_t bytes) {
    return PrivateMemory(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096})));
}

std::uint64_t Arrival::held_bytes() const noexcept {
    std::uint64_t bytes = 0;
    if (streamed.image)
        for (const HeldSlots& held : streamed.image->slots) bytes += held.bytes();
    return bytes;
}

// Keeps the memory of its tables.
void Arrival::reset() noexcept {
    is_acyclic = is_eager = is_whole = is_over = is_settled = has_news = false;
    taker = nullptr;
    error.reset();
    eager = Eager{};
    want = Want{};
    forget();
    streamed.walk.reset();
    streamed.restarts = unfed.restarts = 0;
}

void Arrival::forget() noexcept {
    streamed.image.reset();
    streamed.is_counted = false;
    streamed.bases.clear();
    streamed.written.clear();
    streamed.copied = streamed.records = 0;
    unfed.runs.clear();
    unfed.places.clear();
    unfed.arrays.clear();
    unfed.told = {};
    has_news = false;
}

bool Arrival::amend(const wire::Amendment& amendment) noexcept {
    const std::uint64_t end = streamed.bases.size() * kSegmentBytes;
    if (amendment.bytes > wire::Amendment::kMost || amendment.offset >= end ||
        amendment.bytes > end - amendment.offset)
        return false;
    for (std::uint64_t done = 0; done < amendment.bytes;) {
        const std::uint64_t at = amendment.offset + done;
        const std::uint64_t count =
            std::min(amendment.bytes - done, kSegmentBytes - at % kSegmentBytes);
        std::memcpy(streamed.bases[segment_of(at)] + at % kSegmentBytes, amendment.data + done,
                    count);
        done += count;
    }
    return true;
}

void Arrival::copy_to(std::uint64_t cursor) noexcept {
    while (streamed.copied < cursor) {
        const std::uint64_t at = streamed.copied;
        const std::uint64_t count = std::min(cursor - at, kSegmentBytes - at % kSegmentBytes);
        std::memcpy(streamed.bases[segment_of(at)] + at % kSegmentBytes,
                    streamed.written[segment_of(at)] + at % kSegmentBytes, count);
        streamed.copied += count;
    }
}

void Arrival::feed(Mending& mending) {
    has_news = false;
    if (is_eager) {
        const std::byte* const behind =
            eager.block.data() + round_to(eager.image_bytes, kImageGranule);
        const auto* const first = reinterpret_cast<const PlaceRecord*>(behind);
        mending.add_memory(0, eager.block.data(), eager.image_bytes);
        mending.add_records(
            {first, eager.places},
            {reinterpret_cast<const ArrayRecord*>(first + eager.places), eager.arrays});
        return mending.advance_to(unfed.told);
    }
    if (std::exchange(unfed.restarts, streamed.restarts) != streamed.restarts) mending.restart();
    for (const SegmentRun& run : unfed.runs) mending.add_memory(run.first, run.memory, run.bytes);
    mending.add_records(unfed.places, unfed.arrays);
    unfed.runs.clear();
    unfed.places.clear();
    unfed.arrays.clear();
    mending.advance_to(unfed.told);
}

}  // namespace verbatim::objects

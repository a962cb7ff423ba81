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
    if (image)
        for (const HeldSlots& held : image->slots) bytes += held.bytes();
    return bytes;
}

// Keeps the memory of its tables.
void Arrival::reset() noexcept {
    is_acyclic = is_eager = is_whole = is_over = is_settled = has_news = is_counted = false;
    taker = nullptr;
    block = {};
    image.reset();
    runs.clear();
    bases.clear();
    written.clear();
    copied = records = image_bytes = place_count = array_count = 0;
    places.clear();
    arrays.clear();
    told = {};
    restarts = fed_restarts = need = ticket = 0;
    waits_until = Deadline::never();
    error.reset();
    walk.reset();
}

bool Arrival::amend(const wire::Amendment& amendment) noexcept {
    const std::uint64_t end = bases.size() * kSegmentBytes;
    if (amendment.bytes > wire::Amendment::kMost || amendment.offset >= end ||
        amendment.bytes > end - amendment.offset)
        return false;
    for (std::uint64_t done = 0; done < amendment.bytes;) {
        const std::uint64_t at = amendment.offset + done;
        const std::uint64_t count =
            std::min(amendment.bytes - done, kSegmentBytes - at % kSegmentBytes);
        std::memcpy(bases[segment_of(at)] + at % kSegmentBytes, amendment.data + done, count);
        done += count;
    }
    return true;
}

void Arrival::copy_to(std::uint64_t cursor) noexcept {
    while (copied < cursor) {
        const std::uint64_t count =
            std::min(cursor - copied, kSegmentBytes - copied % kSegmentBytes);
        std::memcpy(bases[segment_of(copied)] + copied % kSegmentBytes,
                    written[segment_of(copied)] + copied % kSegmentBytes, count);
        copied += count;
    }
}

void Arrival::feed(Mending& mending) {
    has_news = false;
    if (is_eager) {
        const std::byte* const records_at = block.data() + round_to(image_bytes, kImageGranule);
        const auto* const first = reinterpret_cast<const PlaceRecord*>(records_at);
        mending.add_memory(0, block.data(), image_bytes);
        mending.add_records(
            {first, place_count},
            {reinterpret_cast<const ArrayRecord*>(first + place_count), array_count});
        return mending.advance_to(told);
    }
    if (fed_restarts != restarts) mending.restart();
    fed_restarts = restarts;
    for (const SegmentRun& run : runs) mending.add_memory(run.first, run.memory, run.bytes);
    mending.add_records(places, arrays);
    runs.clear();
    places.clear();
    arrays.clear();
    mending.advance_to(told);
}

}  // namespace verbatim::objects

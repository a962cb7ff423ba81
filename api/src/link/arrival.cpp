#include "arrival.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

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
    is_whole = is_over = is_settled = has_news = false;
    flags = 0;
    taker = nullptr;
    error.reset();
    if (std::exchange(is_eager, false)) {  // nothing else of it was ever filled
        eager = Eager{};
        unfed.told = {};
        return;
    }
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
    streamed.has_excerpts = false;
    unfed.runs.clear();
    unfed.places.clear();
    unfed.arrays.clear();
    unfed.marks.clear();
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
        std::uint64_t count = std::min(amendment.bytes - done, kSegmentBytes - at % kSegmentBytes);
        const bool is_copied = streamed.written.empty() || at < streamed.copied;
        if (is_copied && !streamed.written.empty()) count = std::min(count, streamed.copied - at);
        // What is not copied yet will be.
        const std::vector<std::byte*>& bases = is_copied ? streamed.bases : streamed.written;
        std::memcpy(bases[segment_of(at)] + at % kSegmentBytes, amendment.data + done, count);
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
        mending.add_memory(0, eager.block.data(), eager.image_bytes);
        const auto [places, arrays] = eager.records();
        mending.add_records(places, arrays);
        return mending.advance_to(unfed.told);
    }
    if (std::exchange(unfed.restarts, streamed.restarts) != streamed.restarts) mending.restart();
    for (const SegmentRun& run : unfed.runs) mending.add_memory(run.first, run.memory, run.bytes);
    mending.add_records(unfed.places, unfed.arrays);
    unfed.runs.clear();
    unfed.places.clear();
    unfed.arrays.clear();
    unfed.marks.clear();
    mending.advance_to(unfed.told);
}

ComposedMemory Arrival::composed() const {
    if (is_eager) return {eager.block.data(), eager.image_bytes, 0};
    const std::uint64_t bytes = unfed.told.cursor;
    if (bytes == 0) throw_corrupt("a composed message has no bytes");
    for (std::uint64_t i = 0; i < segment_of(bytes + kSegmentBytes - 1); ++i)
        if (streamed.bases[i] != streamed.bases[0] + i * kSegmentBytes)
            throw_corrupt("a composed message lies in pieces");
    return {streamed.bases[0], bytes, 0};
}

void Arrival::note_mark() {
    constexpr std::uint64_t kApartBytes = std::uint64_t{64} << 10;
    const bool is_near =
        !unfed.marks.empty() && unfed.told.cursor - unfed.marks.back().told.cursor < kApartBytes;
    if (is_near && !unfed.told.is_last) return;
    unfed.marks.push_back({unfed.told, unfed.places.size(), unfed.arrays.size()});
}

void Arrival::copy_into(KeptImage& image, const std::shared_ptr<Arena>& arena) const {
    image.is_acyclic = is_acyclic();
    image.facts.told = unfed.told;
    const std::uint64_t bytes = unfed.told.cursor;
    image.memory = ImageMemory(arena, bytes, 4096);
    const auto add = [&image, bytes](std::uint64_t offset, const std::byte* from,
                                     std::uint64_t most) {
        if (offset >= bytes) return;
        const std::uint64_t count = std::min(most, bytes - offset);
        std::memcpy(image.memory.data() + offset, from, count);
        image.runs.push_back({offset, count});
    };
    if (!is_eager) {
        for (const SegmentRun& run : unfed.runs)
            add(run.first * kSegmentBytes, run.memory, run.bytes);
        image.facts.places = unfed.places;
        image.facts.arrays = unfed.arrays;
        image.marks = unfed.marks;
        return;
    }
    add(0, eager.block.data(), eager.image_bytes);
    const auto [places, arrays] = eager.records();
    image.facts.places.assign(places.begin(), places.end());
    image.facts.arrays.assign(arrays.begin(), arrays.end());
    image.marks = {{unfed.told, places.size(), arrays.size()}};
}

}  // namespace verbatim::objects

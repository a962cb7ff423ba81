// An arrival is one graph that comes in, as far as it has come. Threads: the lane's.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/graph/mending.hpp>
#include <verbatim/objects/operations/forward.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "windows_lent.hpp"

namespace verbatim::objects {

// Private memory for a copy of what a peer wrote.
struct FreePrivate {
    void operator()(std::byte* memory) const noexcept;
};
using PrivateMemory = std::unique_ptr<std::byte, FreePrivate>;
PrivateMemory private_memory(std::uint64_t bytes);

// Memory that a streamed graph lies in; a Received owns it in the end. Any thread may end it.
struct StreamedImage {
    std::vector<HeldSlots> slots;
    std::vector<PrivateMemory> copies;  // hostile

    StreamedImage() = default;
    ~StreamedImage() { release_slots(); }
    StreamedImage(const StreamedImage&) = delete;
    StreamedImage& operator=(const StreamedImage&) = delete;
    void release_slots() noexcept {
        for (const HeldSlots& held : slots) held.window->release(held.slot, held.count);
        slots.clear();
    }
    // Null: this process has no memory for it.
    std::byte* add_copy(std::uint64_t bytes) noexcept try {
        copies.push_back(private_memory(bytes));
        return copies.back().get();
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
};

// Segments that lie side by side in memory.
struct SegmentRun {
    std::uint64_t first = 0;
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
};

struct Arrival {
    std::uint64_t id = 0;
    std::uint64_t fingerprint = 0;
    std::uint16_t channel = 0;
    std::uint16_t flags = 0;  // of the wire
    bool is_eager = false;
    bool is_whole = false;    // all of it has come
    bool is_over = false;     // the sender says no more of it
    bool is_settled = false;  // a receiver has taken it or its error; or nobody has to
    bool has_news = false;    // something came that the walk was not fed yet
    const void* taker = nullptr;
    std::optional<Error> error;  // why it was refused

    struct Eager {
        ImageMemory block;  // the image, then the records
        std::uint64_t image_bytes = 0, places = 0, arrays = 0;

        std::uint64_t bytes() const noexcept {
            return image_bytes + places * sizeof(PlaceRecord) + arrays * sizeof(ArrayRecord);
        }
        std::pair<std::span<const PlaceRecord>, std::span<const ArrayRecord>> records()
            const noexcept {
            const std::byte* const behind = block.data() + round_to(image_bytes, kImageGranule);
            const auto* const first = reinterpret_cast<const PlaceRecord*>(behind);
            return {{first, places},
                    {reinterpret_cast<const ArrayRecord*>(first + places), arrays}};
        }
    } eager;
    struct Streamed {
        std::shared_ptr<StreamedImage> image;
        bool is_counted = false;          // its slots are of the budget
        std::vector<std::byte*> bases;    // by segment; what the walk sees
        std::vector<std::byte*> written;  // hostile: by segment, what the peer wrote
        std::uint64_t copied = 0;         // hostile: bytes
        bool has_excerpts = false;        // bytes before the cursor may change
        std::uint64_t records = 0;        // that were told
        std::uint64_t restarts = 0;
        std::shared_ptr<void> walk;  // the receiver's, while it is not whole
    } streamed;
    // What the walk does not know yet.
    struct Unfed {
        std::vector<SegmentRun> runs;
        std::vector<PlaceRecord> places;
        std::vector<ArrayRecord> arrays;
        std::vector<KeptImage::Mark> marks;  // of fragments
        Mending::Told told;
        std::uint64_t restarts = 0;  // that it knows of
    } unfed;
    // Memory that the sender waits for.
    struct Want {
        std::uint64_t slots = 0;      // side by side
        std::uint64_t all = 0;        // of the rest of the graph; 0: not known
        bool is_informed = false;     // it knew of all that was lent
        std::uint32_t overtaken = 0;  // wishes that were made before it knew
        std::uint64_t ticket = 0;     // of the budget
        Deadline until;               // of the wait for room in the arena
    } want;

    bool is_acyclic() const noexcept { return (flags & wire::kAcyclic) != 0; }
    bool is_composed() const noexcept { return (flags & wire::kComposed) != 0; }
    // Bytes of its slots.
    std::uint64_t held_bytes() const noexcept;
    void reset() noexcept;
    // Nothing of it has come.
    void forget() noexcept;
    // Of the image; false: some of them are not bound.
    bool amend(const wire::Amendment& amendment) noexcept;
    // Copies what the peer wrote before `cursor`.
    void copy_to(std::uint64_t cursor) noexcept;
    void feed(Mending& mending);
    // Of a composed message that is whole. Throws Error(corrupt_message): it is in pieces.
    ComposedMemory composed() const;
    // What was told last is a mark, unless it is near the one before: a peer that tells of little
    // at a time makes few.
    void note_mark();
    // Copies what no walk has changed yet, if all of it has come. Throws Error(out_of_memory).
    void copy_into(KeptImage& image, const std::shared_ptr<Arena>& arena) const;
};

}  // namespace verbatim::objects

// The staging holds what the sender has copied of a graph until it is written into the receiver's
// memory. It also gives every object its place in the image. Its buffers hold a segment each, in
// memory that the device reaches. Objects larger than a segment are not copied here but listed:
// they leave from where they lie. But arrays whose elements refer to others are copied in excerpts,
// one with each step of the walk: so their references can be written. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/graph/staging_buffers.hpp>

namespace verbatim::objects {

// Bytes of a large object that the receiver must hold otherwise than the sender does; written after
// it.
struct Patch {
    static constexpr std::size_t kMost = 32;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::byte data[kMost];
};

// A way to build segments in the receiver's memory itself, where a peer of the same host lends it.
// One segment is open at a time, and nothing else happens on the connection meanwhile.
struct SegmentOpener {
    // Null: the segment must be staged. `pieces` are what was listed before it.
    std::byte* (*open)(void* owner, std::uint64_t segment, std::span<const Piece> pieces) = nullptr;
    void (*close)(void* owner) noexcept = nullptr;
    void* owner = nullptr;
};

// How a large array leaves: from where it lies, or as its elements are walked.
enum class Leaves : std::uint8_t { whole, in_excerpts };

class Staging {
  public:
    explicit Staging(std::shared_ptr<Arena> arena) noexcept;
    ~Staging() { begin(); }
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // An empty image. What was staged before is dropped.
    void begin();

    // Segments that begin from now on are built at the receiver if they can be; null: staged.
    void set_opener(const SegmentOpener* opener) noexcept { opener_ = opener; }
    // Around each part of a walk: outside nothing of the receiver's memory is open.
    void resume();
    void suspend() noexcept;

    // Room for an object of at most kSegmentBytes; `offset` becomes its place.
    [[gnu::always_inline]] std::byte* place(std::uint64_t bytes, std::uint64_t alignment,
                                            std::uint64_t& offset) {
        const std::uint64_t start = round_to(cursor_, alignment);
        if (start + bytes > end_) return place_in_next(bytes, alignment, offset);
        offset = start;
        cursor_ = start + bytes;
        return base_ + start;
    }
    // Whole segments for a larger object, whose bytes are those at `from`. Null: the receiver makes
    // them.
    std::uint64_t place_large(const std::byte* from, std::uint64_t bytes,
                              Leaves leaves = Leaves::whole);
    // Elements of an array that leaves so, for `offset`.
    void excerpt(const std::byte* from, std::uint64_t offset, std::uint64_t bytes) {
        excerpts_.add({from, offset, bytes}, pieces_, buffers_);
    }
    const Excerpts& excerpts() const noexcept { return excerpts_; }
    // Bytes of an image that was made before, right behind the last ones.
    void list(const std::byte* from, std::uint64_t bytes);
    // Where the bytes at `offset` may still be changed; null once they are on their way. A void
    // walk asks for offsets that nothing was placed at.
    [[gnu::always_inline]] std::byte* staged(std::uint64_t offset) const noexcept {
        if (offset - announced_ < cursor_ - announced_)
            if (std::byte* const segment = segments_[segment_of(offset)])
                return segment + offset % kSegmentBytes;
        return excerpts_.staged(offset);
    }
    void patch(std::uint64_t offset, std::span<const std::byte> bytes);

    std::uint64_t cursor() const noexcept { return cursor_; }
    // Of the image, but for large objects, which leave from where they lie.
    std::uint64_t staged_bytes() const noexcept { return cursor_ - large_bytes_; }
    // What is left of the segment that is filled.
    std::uint64_t room() const noexcept { return end_ - cursor_; }

    // What is to be written now, in the order of the image; then the patches.
    std::span<const Piece> pieces();
    std::span<const Patch> patches() const noexcept { return patches_; }
    // All of that was accepted by the connection and announced to the receiver.
    // Or, of a void walk, none of it ever will be: then no write reads its buffers.
    void set_announced(bool is_sent = true);
    // Told to set_retired() when all accepted writes have: they may be filled again.
    StagingBuffers& buffers() noexcept { return buffers_; }

  private:
    std::byte* place_in_next(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& offset);
    void begin_segment(std::uint64_t segment);
    void fill_from(std::byte* memory) noexcept;
    bool open(std::uint64_t segment);
    void close_segment();

    StagingBuffers buffers_;
    std::uint64_t cursor_ = 0;
    std::uint64_t end_ = 0;          // of the segment that is filled
    std::byte* base_ = nullptr;      // its buffer, less the offset of its start
    std::uint64_t begun_ = 0;        // of it, what was not listed yet
    std::uint64_t announced_ = 0;    // everything before is on its way, or was dropped
    std::uint64_t written_ = 0;      // everything before is on its way
    std::uint64_t large_bytes_ = 0;  // of large objects, in whole segments
    Column<std::byte*> segments_;    // their buffers; null for those without
    std::uint64_t first_kept_ = 0;   // segment; buffers before are under way or free
    std::vector<Piece> pieces_;
    std::vector<Patch> patches_;
    const SegmentOpener* opener_ = nullptr;
    enum class Remote : std::uint8_t { no, closed, open };
    Remote remote_ = Remote::no;  // is the segment that is filled the receiver's?
    Excerpts excerpts_;
};

}  // namespace verbatim::objects

// The image writer gives the segments of an image places in the memory that the receiver lends, and
// writes them there. Threads: the lane's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/registration_cache.hpp>
#include <verbatim/objects/graph/staging.hpp>

#include "outgoing.hpp"

namespace verbatim::objects {

class ObjectLink;

class ImageWriter {
  public:
    // `foreign`: registers large objects outside of the arena; null: they are copied.
    ImageWriter(ObjectLink& link, RegistrationCache* foreign);
    ~ImageWriter();
    ImageWriter(const ImageWriter&) = delete;
    ImageWriter& operator=(const ImageWriter&) = delete;

    // The receiver gives up all segments.
    void restart() noexcept;
    // Takes slots for all segments before `cursor`, in which `pieces` are new. 0, or how many slots
    // side by side are missing.
    std::uint32_t bind(std::span<const Piece> pieces, std::uint64_t cursor);
    // How many of these segments have none yet.
    std::uint32_t unbound(std::uint64_t cursor) const noexcept;
    // The first segments go there, if that is room for all of them.
    void prefer(const TakenSlots& slots) noexcept;
    // What the receiver was not told yet.
    std::span<const wire::Binding> bindings() const noexcept { return bindings_; }
    // The first so many are known to the receiver, which frees them.
    void set_told(std::size_t bindings) noexcept { told_ = bindings; }
    void set_told() noexcept {
        bindings_.clear();
        told_ = 0;
    }

    // Writes on. True once all pieces are on their way. False: the send queue is full, or it is
    // time for a sign of life. Throws Error.
    bool write(std::span<const Piece> pieces);
    bool take_sign_of_life() noexcept;
    // All that was written has retired. Throws Error.
    bool retire();
    bool has_retired() const noexcept { return !under_way_; }
    // Some of it is the sender's object itself, and not a copy.
    bool reads_graph() const noexcept { return reads_graph_; }

    // Builds segments of the image in their slots themselves, where the device has a way.
    const SegmentOpener& opener() const noexcept { return opener_; }

  private:
    static std::byte* open(void* writer, std::uint64_t segment, std::span<const Piece> pieces);
    static void close(void* writer) noexcept;
    void untake() noexcept;
    void put_copy() noexcept;
    bool write_piece(const Piece& piece);
    bool write_copy(const Piece& piece);
    bool copy_there(const Piece& piece);
    bool take(std::uint32_t count, TakenSlots& slots) noexcept;
    const MemoryRegion* leased(const Piece& piece) noexcept;
    struct Source {
        const std::byte* from;
        const MemoryRegion* region;  // null: in the arena
    };
    // Advances `done` by what was accepted of the bytes for `offset`.
    bool post(Source source, std::uint64_t bytes, std::uint64_t offset, std::uint64_t& done);

    struct Place {
        std::uint32_t window = 0, slot = 0;
    };
    ObjectLink& link_;
    Outgoing& outgoing_;
    std::vector<Place> places_;  // by segment
    std::vector<wire::Binding> bindings_;
    std::size_t told_ = 0;  // of them
    TakenSlots preferred_;
    std::size_t piece_ = 0;
    std::uint64_t at_ = 0;  // of the piece
    struct Copy {
        std::byte* bytes = nullptr;  // null: none
        std::uint64_t count = 0, at = 0;
    } copy_;  // of its next bytes
    std::uint64_t quiet_ = 0;
    bool under_way_ = false, reads_graph_ = false;
    RegistrationCache* const foreign_;
    std::vector<Registered> leases_;  // of objects whose writes have not retired
    const SegmentOpener opener_{&open, &close, this};
};

}  // namespace verbatim::objects

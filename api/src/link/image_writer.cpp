#include "image_writer.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "object_link.hpp"

namespace verbatim::objects {
namespace {

std::uint64_t segments_of(std::uint64_t bytes) noexcept {
    return segment_of(bytes + kSegmentBytes - 1);
}

// The segments from `first` on that must lie side by side: those of one large object.
std::uint64_t run_of(std::span<const Piece> pieces, std::uint64_t first,
                     std::uint64_t end) noexcept {
    for (const Piece& piece : pieces) {
        const std::uint64_t begin = segment_of(piece.offset);
        if (begin == first)
            return piece.is_staged
                       ? 1
                       : segments_of(piece.offset + std::max(piece.bytes, piece.room)) - first;
        // Room that no bytes are for.
        if (begin > first) return begin - first;
    }
    return end - first;
}

}  // namespace

ImageWriter::ImageWriter(ObjectLink& link, RegistrationCache* foreign)
    : link_(link), outgoing_(link.outgoing()), foreign_(foreign) {}

ImageWriter::~ImageWriter() {
    put_copy();
    untake();
}

void ImageWriter::put_copy() noexcept {
    if (copy_.bytes != nullptr) outgoing_.buffers->bounce.put(std::exchange(copy_.bytes, nullptr));
}

void ImageWriter::restart() noexcept {
    put_copy();
    untake();
    places_.clear();
    piece_ = 0;
    at_ = copy_.count = copy_.at = 0;
}

void ImageWriter::untake() noexcept {
    for (const wire::Binding& binding : std::span(bindings_).subspan(told_))
        outgoing_.windows.untake({binding.window, binding.slot, binding.count});
    set_told();
    prefer({});
}

void ImageWriter::prefer(const TakenSlots& slots) noexcept {
    if (preferred_.count != 0) outgoing_.windows.untake(preferred_);
    preferred_ = slots;
}

bool ImageWriter::take(std::uint32_t count, TakenSlots& slots) noexcept {
    const TakenSlots preferred = std::exchange(preferred_, {});
    if (preferred.count < count) {
        if (preferred.count != 0) outgoing_.windows.untake(preferred);
        return outgoing_.windows.take(count, slots);
    }
    slots = {preferred.window, preferred.slot, count};
    if (const std::uint32_t rest = preferred.count - count; rest != 0)
        outgoing_.windows.untake({preferred.window, preferred.slot + count, rest});
    return true;
}

std::uint32_t ImageWriter::bind(std::span<const Piece> pieces, std::uint64_t cursor) {
    const std::uint64_t end = segments_of(cursor);
    while (places_.size() < end) {
        const std::uint64_t first = places_.size();
        const auto count = static_cast<std::uint32_t>(run_of(pieces, first, end));
        TakenSlots slots;
        if (!take(count, slots)) return count;
        bindings_.push_back(
            {static_cast<std::uint32_t>(first), slots.window, slots.slot, slots.count});
        for (std::uint32_t i = 0; i < count; ++i) places_.push_back({slots.window, slots.slot + i});
    }
    return 0;
}

std::uint32_t ImageWriter::unbound(std::uint64_t cursor) const noexcept {
    return static_cast<std::uint32_t>(segments_of(cursor) - places_.size());
}

std::byte* ImageWriter::open(void* owner, std::uint64_t segment, std::span<const Piece> pieces) {
    auto& writer = *static_cast<ImageWriter*>(owner);
    if (writer.bind(pieces, (segment + 1) * kSegmentBytes) != 0) return nullptr;
    const Place& place = writer.places_[segment];
    const RemoteExtent remote =
        writer.outgoing_.windows.place(place.window, place.slot * kSegmentBytes);
    if (remote.bytes < kSegmentBytes) return nullptr;
    return RemoteAccess::open(writer.link_.here(), remote.address, kSegmentBytes,
                              remote.remote_key);
}

void ImageWriter::close(void* owner) noexcept {
    Connection* const connection = static_cast<ImageWriter*>(owner)->link_.connection();
    if (connection != nullptr) RemoteAccess::close(*connection);
}

bool ImageWriter::write(std::span<const Piece> pieces) {
    for (; piece_ < pieces.size(); ++piece_, at_ = 0)
        if (!write_piece(pieces[piece_])) return false;
    piece_ = 0;
    return true;
}

bool ImageWriter::write_piece(const Piece& piece) {
    if (piece.bytes == 0) return true;  // it leaves in excerpts
    Arena& arena = link_.here().arena();
    const bool is_there = piece.is_staged || (arena.contains(piece.from) &&
                                              arena.contains(piece.from + piece.bytes - 1));
    const MemoryRegion* const region = is_there ? nullptr : leased(piece);
    while (at_ < piece.bytes) {
        if (quiet_ >= wire::kSignOfLifeBytes) return false;
        if (!is_there && region == nullptr) {
            if (!copy_there(piece) && !write_copy(piece)) return false;
            continue;
        }
        const std::uint64_t before = at_;
        reads_graph_ |= !piece.is_staged;
        const bool is_accepted =
            post({piece.from + at_, region}, std::min(piece.bytes - at_, wire::kSignOfLifeBytes),
                 piece.offset + at_, at_);
        if (!is_accepted || at_ == before) return false;
    }
    return true;
}

// The next bytes of a piece outside of the arena, into the receiver's memory itself. False: it
// cannot be opened.
bool ImageWriter::copy_there(const Piece& piece) {
    if (copy_.bytes != nullptr) return false;
    const std::uint64_t offset = piece.offset + at_;
    const Place& place = places_[segment_of(offset)];
    const std::uint64_t in_segment = offset % kSegmentBytes;
    const RemoteExtent remote =
        outgoing_.windows.place(place.window, place.slot * kSegmentBytes + in_segment);
    const std::uint64_t count = std::min(piece.bytes - at_, kSegmentBytes - in_segment);
    if (remote.bytes < count) return false;
    std::byte* const to =
        RemoteAccess::open(link_.here(), remote.address, count, remote.remote_key);
    if (to == nullptr) return false;
    std::memcpy(to, piece.from + at_, count);
    RemoteAccess::close(link_.here());
    at_ += count;
    quiet_ += count;
    return true;
}

// The next bytes of a piece outside of the arena, by way of a buffer.
bool ImageWriter::write_copy(const Piece& piece) {
    if (copy_.bytes == nullptr) {
        copy_.bytes = outgoing_.buffers->bounce.take();
        // They may be those of a send before that did not wait for them.
        under_way_ = under_way_ || copy_.bytes == nullptr;
        if (copy_.bytes == nullptr && retire()) copy_.bytes = outgoing_.buffers->bounce.take();
        if (copy_.bytes == nullptr) return false;
        copy_.count = std::min<std::uint64_t>(piece.bytes - at_, BounceBuffers::kBytes);
        std::memcpy(copy_.bytes, piece.from + at_, copy_.count);
        copy_.at = 0;
    }
    std::uint64_t done = 0;
    const bool is_accepted =
        post({copy_.bytes + copy_.at, nullptr}, copy_.count - copy_.at, piece.offset + at_, done);
    copy_.at += done;
    at_ += done;
    if (copy_.at == copy_.count) put_copy();
    return is_accepted;
}

// Where the piece lies under a lease; null: it is copied. Memory that cannot be registered is no
// error of the graph.
const MemoryRegion* ImageWriter::leased(const Piece& piece) noexcept try {
    if (foreign_ == nullptr || copy_.bytes != nullptr) return nullptr;
    if (!leases_.empty() && leases_.back().covers(piece.from, piece.bytes))
        return leases_.back().region();
    if (foreign_->copies(piece.bytes)) return nullptr;
    leases_.push_back(foreign_->acquire(std::span(piece.from, piece.bytes)));
    return leases_.back().region();
} catch (const std::exception&) {
    return nullptr;
}

bool ImageWriter::post(Source source, std::uint64_t bytes, std::uint64_t offset,
                       std::uint64_t& done) {
    Connection& connection = link_.here();
    const std::uint64_t end = done + bytes;
    while (done < end) {
        const Place& place = places_[segment_of(offset)];
        const RemoteExtent remote = outgoing_.windows.place(
            place.window, place.slot * kSegmentBytes + offset % kSegmentBytes);
        // Segments of one piece lie side by side in their window.
        const std::uint64_t count = std::min(end - done, remote.bytes);
        std::size_t written = 0;
        const Errc code = connection.try_write(source.from, count, remote.address,
                                               remote.remote_key, written, source.region);
        under_way_ = under_way_ || written != 0;
        done += written;
        source.from += written;
        offset += written;
        quiet_ += written;
        if (code == Errc::would_block) return false;
        if (code == Errc::ok) continue;
        connection.check();
        throw Error(code, "bytes of a graph", std::string(describe(code)));
    }
    return true;
}

bool ImageWriter::take_sign_of_life() noexcept {
    if (quiet_ < wire::kSignOfLifeBytes) return false;
    quiet_ = 0;
    return true;
}

bool ImageWriter::retire() {
    if (!under_way_) return true;
    // A receiver may close as soon as it has the graph, before its device's last answers are here.
    if (!link_.ended_with_all_taken()) {
        Connection& connection = link_.here();
        const Errc code = connection.try_flush();
        if (code != Errc::ok && !connection.peer_took_all()) {
            if (code == Errc::would_block) return false;
            connection.check();
            throw Error(code, "bytes of a graph", std::string(describe(code)));
        }
    }
    under_way_ = reads_graph_ = false;
    outgoing_.buffers->bounce.set_retired();
    leases_.clear();
    return true;
}

}  // namespace verbatim::objects

// Cutting the image into pieces: what is sent from the arena, what is copied, what is rewritten.
#include "image_stream.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <verbatim/objects/libstdcxx.hpp>

#include "graph_wire.hpp"

namespace verbatim::objects {
namespace {

// Bytes of a StringImage, the part of a string that ShortString rewrites.
constexpr std::uint64_t kStringBytes = sizeof(StringImage<char>);

// Of what leaves from where it lies: the sender has more to do than to write.
constexpr std::uint64_t kLongestPiece = wire::kSignOfLifeBytes;

// 2^20 shuffled points on two Sapphire Rapids vCPUs: 96-104 ns an object without, 29 with 4, 28
// with 12. with 24.
constexpr std::size_t kPrefetchStretches = 12;

// Small objects are the common case: a fixed-size copy is a few loads and stores, a call is not.
void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) noexcept {
    switch (bytes) {
        case 8:
            std::memcpy(to, from, 8);
            return;
        case 16:
            std::memcpy(to, from, 16);
            return;
        case 24:
            std::memcpy(to, from, 24);
            return;
        case 32:
            std::memcpy(to, from, 32);
            return;
        default:
            std::memcpy(to, from, bytes);
    }
}

}  // namespace

ImageStream::ImageStream(const Scan& scan, const Buffers& buffers)
    : scan_(scan), buffers_(buffers) {
    if (!buffers.checksum) return;
    hash_ = XXH3_createState();
    if (hash_ == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(hash_);
}

ImageStream::~ImageStream() { XXH3_freeState(hash_); }

std::uint64_t ImageStream::checksum() const noexcept {
    return hash_ == nullptr ? 0 : XXH3_64bits_digest(hash_);
}

void ImageStream::set_extents(const std::vector<RemoteExtent>& extents) {
    std::uint64_t bytes = 0;
    for (const RemoteExtent& extent : extents) {
        if (extent.bytes > scan_.image_bytes() - bytes)
            throw Error(Errc::protocol_error, "receiver", "it lends more memory than was asked for",
                        "use the same version of verbatim on both sides");
        bytes += extent.bytes;
    }
    if (bytes != scan_.image_bytes())
        throw Error(Errc::protocol_error, "receiver", "it lends less memory than was asked for",
                    "use the same version of verbatim on both sides");
    extents_ = extents;
}

bool ImageStream::step(Connection& connection, std::uint64_t end) {
    while (true) {
        if (piece_.bytes > 0 && !write(connection)) return false;
        if (position_ >= std::min(end, scan_.image_bytes())) return true;
        if (!next_piece(connection)) return false;
    }
}

// Hands the current piece to the connection; false if the send queue is full.
bool ImageStream::write(Connection& connection) {
    while (piece_.bytes > 0) {
        while (piece_.offset >= extent_start_ + extents_[extent_].bytes)
            extent_start_ += extents_[extent_++].bytes;
        const RemoteExtent& extent = extents_[extent_];
        const std::uint64_t inside = piece_.offset - extent_start_;
        const std::uint64_t bytes = std::min(piece_.bytes, extent.bytes - inside);
        std::size_t written = 0;
        const Errc code = connection.try_write(piece_.from, bytes, extent.address + inside,
                                               extent.remote_key, written);
        piece_.from += written;
        piece_.bytes -= written;
        piece_.offset += written;
        if (code == Errc::would_block) return false;
        if (code != Errc::ok) {
            connection.check();
            throw Error(code, "write of a graph", std::string(describe(code)));
        }
    }
    return true;
}

bool ImageStream::next_piece(Connection& connection) {
    const std::uint64_t start = position_;
    if (const std::uint64_t bytes = direct_length(); bytes > 0) {
        const Stretch& stretch = scan_.stretches()[stretch_];
        piece_ = {
            reinterpret_cast<const std::byte*>(stretch.address + (position_ - stretch.offset)),
            bytes, start};
        advance(bytes);
    } else {
        if (slots_used_up_) {
            const Errc code = connection.try_flush();
            if (code == Errc::would_block) return false;
            if (code != Errc::ok) connection.check();
            slots_used_up_ = false;
        }
        const std::size_t slot_bytes = buffers_.staging_bytes / kSlots;
        std::byte* const slot = buffers_.staging + slot_ * slot_bytes;
        std::byte* to = slot;
        do copy_some(to, slot + slot_bytes);
        while (position_ < scan_.image_bytes() && to + kStringBytes <= slot + slot_bytes &&
               direct_length() == 0);
        piece_ = {slot, static_cast<std::uint64_t>(to - slot), start};
        slot_ = (slot_ + 1) % kSlots;
        slots_used_up_ = slot_ == 0;
    }
    if (hash_ != nullptr) XXH3_64bits_update(hash_, piece_.from, piece_.bytes);
    return true;
}

// Bytes that may leave the arena from where they lie, 0 if what is next must be copied.
std::uint64_t ImageStream::direct_length() const noexcept {
    if (until_stretch() > 0 || !scan_.stretches()[stretch_].direct) return 0;
    const std::uint64_t bytes = std::min({left_of_stretch(), until_short_string(), kLongestPiece});
    return bytes >= buffers_.direct_bytes ? bytes : 0;
}

// Zeros until the next stretch begins, or the image ends.
std::uint64_t ImageStream::until_stretch() const noexcept {
    const auto stretches = scan_.stretches();
    if (stretch_ == stretches.size()) return scan_.image_bytes() - position_;
    return position_ < stretches[stretch_].offset ? stretches[stretch_].offset - position_ : 0;
}

// Of the stretch that position_ is in.
std::uint64_t ImageStream::left_of_stretch() const noexcept {
    const Stretch& stretch = scan_.stretches()[stretch_];
    return stretch.offset + stretch.bytes - position_;
}

std::uint64_t ImageStream::until_short_string() const noexcept {
    const auto strings = scan_.short_strings();
    return short_string_ < strings.size() ? strings[short_string_].offset - position_
                                          : ~std::uint64_t{0};
}

void ImageStream::advance(std::uint64_t bytes) noexcept {
    position_ += bytes;
    if (until_stretch() == 0 && left_of_stretch() == 0) ++stretch_;
}

// Copies one stretch or a part of it, one rewritten string, or zeros.
void ImageStream::copy_some(std::byte*& to, std::byte* end) {
    const std::uint64_t until = until_short_string(), zeros = until_stretch();
    std::uint64_t bytes = static_cast<std::uint64_t>(end - to);
    if (until == 0) {
        copy_short_string(to);
        bytes = kStringBytes;
    } else if (zeros > 0) {
        bytes = std::min(bytes, zeros);
        std::memset(to, 0, bytes);
    } else {
        const auto stretches = scan_.stretches();
        const Stretch& stretch = stretches[stretch_];
        // Scattered objects are one cache miss each: fetch what is copied a dozen from now.
        if (stretch_ + kPrefetchStretches < stretches.size())
            __builtin_prefetch(
                reinterpret_cast<const void*>(stretches[stretch_ + kPrefetchStretches].address));
        bytes = std::min({bytes, until, left_of_stretch()});
        copy_bytes(
            to, reinterpret_cast<const std::byte*>(stretch.address) + (position_ - stretch.offset),
            bytes);
    }
    to += bytes;
    if (until == 0) ++short_string_;
    advance(bytes);
}

void ImageStream::copy_short_string(std::byte* to) {
    const ShortString& string = scan_.short_strings()[short_string_];
    StringImage<char> image;
    std::memcpy(&image, reinterpret_cast<const void*>(string.address), sizeof image);
    const std::byte* characters = image.data;
    std::memset(image.local, 0, sizeof image.local);
    std::memcpy(image.local, characters, image.size * string.character_bytes);
    std::memcpy(to, &image, sizeof image);
}

}  // namespace verbatim::objects

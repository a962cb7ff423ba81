// Writes the image of a scanned graph into the receiver's memory, in order: long stretches of the
// arena from where they lie, everything else through the staging buffer (Naos §3.2, "network
// buffering"). Threads: one. Nothing here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/scan.hpp>

#include <xxhash.h>

namespace verbatim::objects {

class ImageStream {
  public:
    struct Buffers {
        std::byte* staging = nullptr;
        std::size_t staging_bytes = 0;
        std::size_t direct_bytes = 0;  // shorter stretches are copied
        bool checksum = false;
    };
    ImageStream(const Scan& scan, const Buffers& buffers);
    ~ImageStream();
    ImageStream(const ImageStream&) = delete;
    ImageStream& operator=(const ImageStream&) = delete;

    // Where the image goes; the extents follow each other and hold it exactly. Throws
    // Error(protocol_error).
    void set_extents(const std::vector<RemoteExtent>& extents);
    // True once everything before the image's offset `end` was accepted by the connection. Throws
    // Error on the connection's end.
    bool step(Connection& connection, std::uint64_t end);
    // How far the image was accepted, or is about to be.
    std::uint64_t position() const noexcept { return position_; }
    // XXH3-64 over the image as written, after step() to its end returned true.
    std::uint64_t checksum() const noexcept;

  private:
    // Bytes on their way: [from, from + bytes) to image offset `offset`.
    struct Piece {
        const std::byte* from = nullptr;
        std::uint64_t bytes = 0;
        std::uint64_t offset = 0;
    };
    static constexpr std::size_t kSlots = 4;  // parts of the staging buffer, filled in turn

    bool write(Connection& connection);
    bool next_piece(Connection& connection);
    std::uint64_t direct_length() const noexcept;
    void copy_some(std::byte*& to, std::byte* end);
    void advance(std::uint64_t bytes) noexcept;
    void copy_short_string(std::byte* to);
    std::uint64_t until_short_string() const noexcept;
    std::uint64_t until_stretch() const noexcept;
    std::uint64_t left_of_stretch() const noexcept;

    const Scan& scan_;
    Buffers buffers_;
    std::vector<RemoteExtent> extents_;
    std::size_t extent_ = 0;          // that holds the next byte to write
    std::uint64_t extent_start_ = 0;  // its image offset
    std::size_t stretch_ = 0;         // next to copy or send
    std::uint64_t position_ = 0;      // in the image, of what is next to copy or send
    std::size_t short_string_ = 0;
    std::size_t slot_ = 0;        // to fill next
    bool slots_used_up_ = false;  // writes from the slots must retire before the next is filled
    Piece piece_;
    XXH3_state_t* hash_ = nullptr;
};

}  // namespace verbatim::objects

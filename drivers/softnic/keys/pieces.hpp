// A request's local memory as the engine sees it: pieces of this process, already checked against
// their keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <verbatim/mlx5/formats.hpp>

#include "../host/shared_store.hpp"

namespace verbatim::softnic {

struct Piece {
    std::byte* data;
    std::size_t bytes;
};

// Room for the longest WQE: an inline segment that wraps makes two pieces, and so does a fault
// policy of the first one.
inline constexpr std::size_t kMaxPieces = mlx5::kMaxWqeUnits + 2;

// Left uninitialised on purpose: it is made anew for every request.
struct PieceList {
    std::array<Piece, kMaxPieces> items;
    std::size_t count;
    std::uint64_t total;
    bool big_endian = false;  // the result of an atomic operation is to be left so

    PieceList() noexcept : count(0), total(0) {}
    void add(std::byte* data, std::size_t bytes) noexcept {
        items[count++] = {data, bytes};
        total += bytes;
    }
};

// Copies `bytes` bytes, starting `skip` bytes into the list, with a function (data, bytes) per
// contiguous part.
template <class Copy>
void for_each_part(const PieceList& list, std::uint64_t skip, std::uint64_t bytes,
                   Copy&& copy) noexcept {
    for (std::size_t i = 0; i < list.count && bytes != 0; ++i) {
        const Piece& piece = list.items[i];
        if (skip >= piece.bytes) {
            skip -= piece.bytes;
            continue;
        }
        const std::size_t part = std::min<std::uint64_t>(piece.bytes - skip, bytes);
        copy(piece.data + skip, part);
        skip = 0;
        bytes -= part;
    }
}

// From here on a write does not fit the caches of a core together with its copy.
inline constexpr std::uint64_t kStreamedBytes = 2u << 20;

// A part of a list. `streams`: of a request that does not fit the caches.
struct Chunk {
    std::uint64_t skip, bytes;
    bool streams = false;
};

// Gathers a part of the list into one place in a peer's memory, its last aligned 8 bytes last. What
// is stored afterwards is seen after all of it.
inline void gather_in_order(std::byte* to, const PieceList& list, const Chunk& chunk) noexcept {
    const bool streams = chunk.streams;
    if (list.count == 1 && !streams)
        return write_in_order(to, list.items[0].data + chunk.skip, chunk.bytes);
    const std::size_t tail = tail_bytes(to, chunk.bytes);
    const std::uint64_t before = chunk.bytes - tail;
    for_each_part(list, chunk.skip, before, [&](const std::byte* from, std::size_t bytes) {
        streams ? stream_bytes(to, from, bytes) : copy_bytes(to, from, bytes);
        to += bytes;
    });
    if (streams) mlx5::store_fence();
    std::array<std::byte, 8> last;
    std::size_t filled = 0;
    for_each_part(list, chunk.skip + before, tail, [&](const std::byte* from, std::size_t bytes) {
        std::memcpy(last.data() + filled, from, bytes);
        filled += bytes;
    });
    publish_tail(to, last.data(), tail);
}

// Copies out of memory that others may write.
inline void read_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if constexpr (mlx5::kThreadSanitizer)
        copy_words(to, from, bytes);
    else
        std::memcpy(to, from, bytes);
}

// Scatters contiguous bytes into this process's pieces, `skip` bytes into the list.
inline void scatter(const PieceList& list, std::uint64_t skip, const std::byte* from,
                    std::size_t bytes) noexcept {
    for_each_part(list, skip, bytes, [&](std::byte* to, std::size_t part) {
        read_bytes(to, from, part);
        from += part;
    });
}

}  // namespace verbatim::softnic

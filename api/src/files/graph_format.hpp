// The format of a graph file (docs/saved-graphs.md): a page with the header, then the image, the
// layout's text, places, arrays, and the classes, or, of placed files, the map of pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <xxhash.h>

#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects::file {

inline constexpr std::uint64_t kMagic = 0x3168706172676276;  // the characters "vbgraph1"
inline constexpr std::uint32_t kVersion = 2;
enum class Form : std::uint32_t { image = 0, placed = 1 };
inline constexpr std::uint64_t kImageAt = 4096;
inline constexpr std::uint64_t kMostLayoutBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostClassBytes = std::uint64_t{64} << 20;
// Bytes of an image that one word of the map of pointers stands for.
inline constexpr std::uint64_t kBytesPerMapWord = 64 * sizeof(std::uint64_t);

struct FileHeader {
    std::uint64_t magic = kMagic;
    std::uint32_t version = kVersion;
    Form form = Form::image;
    std::uint64_t fingerprint = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t image_bytes = 0;
    std::uint64_t steps = 0, references = 0, objects = 0;
    std::uint64_t layout_bytes = 0;
    std::uint64_t places = 0, arrays = 0;
    std::uint64_t base = 0, root = 0;  // placed; of images: bytes of the classes, and nothing
    std::uint64_t body_sum = 0;        // of all from kImageAt on
    std::uint64_t header_sum = 0;      // of all before it
};
static_assert(sizeof(FileHeader) == 120 && std::is_trivially_copyable_v<FileHeader>);

inline std::uint64_t sum_of(const FileHeader& header) noexcept {
    return XXH3_64bits(&header, offsetof(FileHeader, header_sum));
}

// What is said of a class; its name and its layout's text follow, up to a multiple of 8.
struct ClassHeader {
    std::uint64_t fingerprint = 0;
    std::uint32_t name_bytes = 0, layout_bytes = 0;
};
static_assert(sizeof(ClassHeader) == 16 && std::is_trivially_copyable_v<ClassHeader>);

// Where the parts lie; the last one is that of the pointers, or of the classes. The header's
// numbers are bounded before.
struct Sections {
    explicit Sections(const FileHeader& header) noexcept
        : layout(kImageAt + round_to(header.image_bytes, 8)),
          places(layout + round_to(header.layout_bytes, 8)),
          arrays(places + header.places * sizeof(PlaceRecord)),
          last(arrays + header.arrays * sizeof(ArrayRecord)),
          end(last + (header.form == Form::placed ? round_to(header.image_bytes, kBytesPerMapWord) /
                                                        kBytesPerMapWord * sizeof(std::uint64_t)
                                                  : round_to(header.base, 8))) {}
    std::uint64_t layout, places, arrays, last, end;
};

}  // namespace verbatim::objects::file

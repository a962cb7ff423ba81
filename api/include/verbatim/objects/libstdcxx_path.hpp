// The layout of std::filesystem::path in libstdc++, which programs cannot name. A path has its
// text, and where that has several components a block with a path for each of them. It was probed
// with live objects, once in a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbatim::objects {

struct PathImage {
    std::byte text[32];  // a std::string
    // Of a path with one component its kind; else the address of the block.
    std::uint64_t components;
};

// Bytes of the block of a path with that text; 0: it has none.
std::uint64_t path_block_bytes(std::string_view text) noexcept;
// Gives the path its components, in `block`. `text` is that of the path, which is whole.
void put_path_components(PathImage& path, std::string_view text, std::byte* block) noexcept;
// Throws Error(unsupported): the layout is another one.
void verify_path_layout();

}  // namespace verbatim::objects

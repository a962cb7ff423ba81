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

// The components of a path, counted once. Keeps no copy of its text.
class PathComponents {
  public:
    explicit PathComponents(std::string_view text) noexcept;
    std::uint64_t count() const noexcept { return count_; }
    // Of the block; 0: it has none.
    std::uint64_t block_bytes() const noexcept;
    // Gives them to the path of that text, in `block`.
    void put(PathImage& path, std::byte* block) const noexcept;

  private:
    std::string_view text_;
    std::uint64_t count_ = 0;
    std::uint64_t characters_ = 0;  // of those that no component has in itself
    std::uint64_t first_kind_;
};
// Throws Error(unsupported): the layout is another one.
void verify_path_layout();

}  // namespace verbatim::objects

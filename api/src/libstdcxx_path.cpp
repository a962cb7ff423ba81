#include <verbatim/objects/libstdcxx_path.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {
namespace {

// As libstdc++ numbers the kinds of components; a block has none.
enum class Kind : std::uint64_t { block, root_name, root_directory, file_name };

struct TextImage {
    static constexpr std::size_t kLocal = 15;
    const char* data;
    std::size_t size;
    char local[kLocal + 1];
};
struct BlockImage {
    std::int32_t size, capacity;
};
struct ComponentImage {
    TextImage text;
    Kind kind;
    std::size_t at;  // in the text of the whole
};
static_assert(sizeof(TextImage) == sizeof(std::string));
static_assert(sizeof(PathImage) == sizeof(std::filesystem::path));
static_assert(sizeof(ComponentImage) == sizeof(std::filesystem::path) + sizeof(std::size_t));

// Calls with place, length and kind of each component. A separator at the end has an empty file
// name behind it.
template <class Call>
void each_component(std::string_view text, Call&& call) noexcept {
    std::size_t at = 0;
    const auto skip_separators = [&] {
        at = std::min(text.find_first_not_of('/', at), text.size());
    };
    if (text.starts_with('/')) {
        call(0, 1, Kind::root_directory);
        skip_separators();
    }
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('/', at), text.size());
        call(at, end - at, Kind::file_name);
        at = end;
        if (at == text.size()) return;
        skip_separators();
        if (at == text.size()) call(at, 0, Kind::file_name);
    }
}

// Is the path what would be made here of its text?
bool is_as_known(const std::filesystem::path& path) {
    const auto& known = reinterpret_cast<const PathImage&>(path);
    if (static_cast<const void*>(&path.native()) != &known) return false;
    PathImage made{};
    const PathComponents components(path.native());
    std::vector<std::byte> block(components.block_bytes());
    components.put(made, block.data());
    if (block.empty()) return known.components == made.components;
    const auto* theirs = reinterpret_cast<const std::byte*>(known.components);
    if (known.components % 4 != 0 ||
        std::memcmp(theirs, block.data(), sizeof(BlockImage::size)) != 0)
        return false;
    for (std::uint64_t i = 0; i < components.count(); ++i) {
        ComponentImage one, other;
        const std::size_t at = sizeof(BlockImage) + i * sizeof one;
        std::memcpy(&one, theirs + at, sizeof one);
        std::memcpy(&other, block.data() + at, sizeof other);
        if (one.at != other.at || one.kind != other.kind ||
            std::string_view(one.text.data, one.text.size) !=
                std::string_view(other.text.data, other.text.size))
            return false;
    }
    return true;
}

}  // namespace

// An empty path is of the kind of file names.
PathComponents::PathComponents(std::string_view text) noexcept
    : text_(text), first_kind_(static_cast<std::uint64_t>(Kind::file_name)) {
    each_component(text, [&](std::size_t, std::size_t size, Kind kind) {
        if (count_++ == 0) first_kind_ = static_cast<std::uint64_t>(kind);
        if (size > TextImage::kLocal) characters_ += size + 1;
    });
}

std::uint64_t PathComponents::block_bytes() const noexcept {
    if (count_ < 2) return 0;
    return sizeof(BlockImage) + count_ * sizeof(ComponentImage) + characters_;
}

void PathComponents::put(PathImage& path, std::byte* block) const noexcept {
    path.components = first_kind_;
    if (count_ < 2) return;
    path.components = reinterpret_cast<std::uint64_t>(block);
    const auto count = static_cast<std::int32_t>(count_);
    const BlockImage head{count, count};
    std::memcpy(block, &head, sizeof head);
    std::byte* to = block + sizeof head;
    auto* characters = reinterpret_cast<char*>(to + count_ * sizeof(ComponentImage));
    each_component(text_, [&](std::size_t at, std::size_t size, Kind kind) {
        const bool is_local = size <= TextImage::kLocal;
        char* const data =
            is_local ? reinterpret_cast<char*>(to + offsetof(TextImage, local)) : characters;
        if (!is_local) characters += size + 1;
        ComponentImage component{{data, size, {}}, kind, at};
        if (!is_local) std::memcpy(component.text.local, &size, sizeof size);  // the capacity
        std::memcpy(to, &component, sizeof component);
        std::memcpy(data, text_.data() + at, size);
        data[size] = 0;
        to += sizeof component;
    });
}

void verify_path_layout() {
    static const bool is_known = [] {
        for (const char* text :
             {"", "/", "//", "name", "a/b", "/a/", "//host/a//a name of some length/", "a/../.",
              "a name that is longer than fifteen/b"})
            if (!is_as_known(text)) return false;
        return true;
    }();
    if (!is_known)
        throw Error(Errc::unsupported, "type std::filesystem::path",
                    "this C++ library lays it out in another way", "send its string()");
}

}  // namespace verbatim::objects

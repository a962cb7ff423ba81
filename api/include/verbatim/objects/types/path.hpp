// std::filesystem::path: its text. The receiver makes the components, which libstdc++ keeps beside
// it, in room that the sender leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>

#include <verbatim/objects/libstdcxx_path.hpp>
#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/trait.hpp>
#include <verbatim/objects/types/array.hpp>
#include <verbatim/objects/types/scalar.hpp>
#include <verbatim/objects/types/string.hpp>

namespace verbatim::objects {
namespace detail {

template <>
struct KeyParts<std::filesystem::path> : std::type_identity<List<>> {};

}  // namespace detail

template <>
struct Trait<std::filesystem::path> {
    using Path = std::filesystem::path;
    using Parts = List<std::string>;
    using Edges = List<OwnedArray<char>>;
    static constexpr bool kHoldsAllParts = true;
    static constexpr bool kPlain = false;
    static constexpr bool kHoldsOtherAddresses = true;  // which only the receiver knows
    static constexpr std::size_t kBlockAlignment = alignof(void*);

    static std::string spell() { return "path"; }
    static TypeInfo info() {
        verify_path_layout();
        return info_of_part(&type_info<std::string>);
    }
    template <class S>
    static void pack(S& sender, const Path& path, Slot slot) {
        TraitOf<std::string>::pack(sender, path.native(), slot);
        sender.reserve(PathComponents(path.native()).block_bytes(), kBlockAlignment);
    }
    template <class R>
    static void mend(R& receiver, Path& path) {
        auto& text = reinterpret_cast<std::string&>(path);
        TraitOf<std::string>::mend(receiver, text);
        const PathComponents components(text);
        const std::uint64_t bytes = components.block_bytes();
        if (bytes > kMostBlockBytes) receiver.corrupt("a path has too many components");
        std::byte* const block = bytes == 0 ? nullptr : receiver.reserve(bytes, kBlockAlignment);
        components.put(reinterpret_cast<PathImage&>(path), block);
    }

  private:
    static constexpr std::uint64_t kMostBlockBytes = std::uint64_t{1} << 31;
};

}  // namespace verbatim::objects

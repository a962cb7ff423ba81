// This header has libstdc++'s layout of the standard types that graphs contain; no other file knows
// it. It is probed against the installed library, by verify_library_layout(), before the first
// transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>
#include <type_traits>
#include <vector>

#if !defined(_GLIBCXX_USE_CXX11_ABI) || !_GLIBCXX_USE_CXX11_ABI
#error "verbatim needs libstdc++ with the C++11 string ABI (_GLIBCXX_USE_CXX11_ABI=1)"
#endif
#if !defined(__GXX_RTTI)
#error "verbatim compares types by typeid: build without -fno-rtti"
#endif
#if defined(_GLIBCXX_DEBUG)
#error "verbatim cannot send containers of libstdc++'s debug mode: build without _GLIBCXX_DEBUG"
#endif

namespace verbatim::objects {

// std::basic_string<C>: a string of at most kLocal characters lies in the object itself, and `data`
// points there.
template <class C>
struct StringImage {
    static constexpr std::size_t kLocal = 15 / sizeof(C);
    std::byte* data;
    std::size_t size;
    union {
        C local[kLocal + 1];
        std::size_t capacity;
    };
};

// std::vector<E>, E not bool.
struct VectorImage {
    std::byte *begin, *end, *capacity_end;
};

// std::optional<T>: the value, then a byte that is 1 if there is one. `value_bytes`: sizeof(T).
inline std::byte optional_flag(const std::byte* optional, std::size_t value_bytes) noexcept {
    return optional[value_bytes];
}
inline bool optional_is_engaged(const std::byte* optional, std::size_t value_bytes) noexcept {
    return optional_flag(optional, value_bytes) == std::byte{1};
}

// A container with a std::pmr allocator starts with the address of its memory resource.
template <bool Polymorphic>
inline constexpr std::size_t kAllocatorBytes = Polymorphic ? sizeof(void*) : 0;

template <class A, class E>
inline constexpr bool kIsPolymorphic = std::is_same_v<A, std::pmr::polymorphic_allocator<E>>;
template <class A, class E>
inline constexpr bool kHasKnownAllocator =
    kIsPolymorphic<A, E> || std::is_same_v<A, std::allocator<E>>;

// Kept, because the call is one into a library, for each string. It is null before this is
// initialised: then the initialisation of another source is receiving a graph.
inline const std::pmr::memory_resource* const kNoResource = std::pmr::null_memory_resource();
// A received container must never allocate or free: its resource refuses. Returns what follows it.
template <bool Polymorphic>
std::byte* forbid_allocation(void* container) noexcept {
    auto* bytes = static_cast<std::byte*>(container);
    if constexpr (Polymorphic) {
        const auto* resource = kNoResource;
        if (resource == nullptr) [[unlikely]]
            resource = std::pmr::null_memory_resource();
        std::memcpy(bytes, &resource, sizeof resource);
    }
    return bytes + kAllocatorBytes<Polymorphic>;
}

// Throws Error(unsupported) if the standard library lays these types out differently.
void verify_library_layout();

// Named in the fingerprint, so that two libraries that differ do not exchange bytes.
inline constexpr const char* kLibraryAbi = "libstdc++ cxx11 1";

}  // namespace verbatim::objects

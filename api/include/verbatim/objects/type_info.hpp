// A type info describes a type at run time, for the parts of a transfer without templates. One
// object per type and process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/objects/forms.hpp>
#include <verbatim/objects/type_name.hpp>

namespace verbatim::objects {

struct TypeInfo;
// Late, because types may refer to themselves.
using TypeInfoFunction = const TypeInfo& (*)();

struct PartInfo {
    std::string name;  // empty where the language hides it
    std::size_t offset = 0;
    TypeInfoFunction type = nullptr;
};

struct TypeInfo {
    std::string name;
    Form form = Form::scalar;
    std::size_t bytes = 0;
    std::size_t alignment = 1;
    std::size_t count = 1;               // array: elements
    TypeInfoFunction element = nullptr;  // array, optional: held; pointer, text, sequence: target
    std::vector<PartInfo> parts;         // product
    bool polymorphic_allocator = false;  // text, sequence
};

// The layout of a type and of all types it reaches, as text. It has one line per fact. It is equal
// on both sides if and only if the bytes mean the same. Throws Error(unsupported) if a described
// type leaves a member out.
std::string layout_text(const TypeInfo& root);

struct Layout {
    std::string text;
    std::uint64_t fingerprint = 0;  // of the text and the library's ABI
};
// Computed once per type. Any thread.
const Layout& layout_of(const TypeInfo& root);

// Names the first difference of two layouts: "field 3 (offset 16) of Package: sender u64, receiver
// std::string".
std::string first_difference(std::string_view sender, std::string_view receiver);

// Objects of one type side by side in memory. Their flags of optionals have been checked.
struct ObjectArray {
    const TypeInfo& type;
    std::uint64_t count = 0;
    const std::byte* bytes = nullptr;
};

// Does the array hold `inner_count` consecutive objects of type `inner`, starting `delta` bytes
// into it? The storage of an empty optional holds no object.
bool holds(const ObjectArray& outer, std::uint64_t delta, const TypeInfo& inner,
           std::uint64_t inner_count) noexcept;

template <class T>
const TypeInfo& type_info();

// The properties of a type that hot code needs, known at compile time. Its address is the type's
// identity, too.
struct alignas(32) TypeKey {
    TypeInfoFunction info;
    std::uint64_t bytes;
    std::uint64_t alignment;
};
template <class T>
inline constexpr TypeKey kTypeKey{&type_info<T>, sizeof(T), alignof(T)};

// Each object of an image starts on a multiple of this.
inline constexpr std::uint64_t kImageGranule = 16;

constexpr std::uint64_t round_to(std::uint64_t value, std::uint64_t alignment) noexcept {
    return (value + alignment - 1) / alignment * alignment;
}
constexpr std::uint64_t image_alignment(std::size_t alignment) noexcept {
    return alignment > kImageGranule ? alignment : kImageGranule;
}

// From one single object to its neighbour.
template <class E>
inline constexpr std::uint64_t kSingleStride = round_to(sizeof(E), kImageGranule);

// Objects that the next pointer is likely to lead to, because the last one did: elements of an
// array, or single objects side by side.
struct LikelyTargets {
    std::uint64_t start = 0;  // address, or offset in an image
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // in the image
    const TypeKey* type = nullptr;
    bool is_array = false;

    // Does an E start at `position`?
    template <class E>
    bool has(std::uint64_t position) const noexcept {
        return type == &kTypeKey<E> &&
               (is_array ? has_at<sizeof(E)>(position) : has_at<kSingleStride<E>>(position));
    }
    template <std::uint64_t Stride>
    bool has_at(std::uint64_t position) const noexcept {
        const std::uint64_t delta = position - start;
        return delta < bytes && delta % Stride == 0;
    }
};

// One guess for each of a few types: pointers to several types take turns.
class LikelyTable {
  public:
    LikelyTargets& of(const TypeKey& type) noexcept {
        return targets_[reinterpret_cast<std::uintptr_t>(&type) / sizeof(TypeKey) % kTypes];
    }
    void clear() noexcept { targets_ = {}; }

  private:
    static constexpr std::size_t kTypes = 16;
    std::array<LikelyTargets, kTypes> targets_;
};

namespace detail {

template <class T>
std::string scalar_name() {
    using Limits = std::integral_constant<std::size_t, sizeof(T) * 8>;
    if constexpr (std::is_enum_v<T> || std::is_class_v<T>) return type_name<T>();
    if constexpr (std::is_same_v<T, char> || std::is_same_v<T, wchar_t>) return type_name<T>();
    if constexpr (std::is_floating_point_v<T>) return "f" + std::to_string(Limits::value);
    return (std::is_signed_v<T> ? "i" : "u") + std::to_string(Limits::value);
}

// Offsets are taken from storage in which no object was ever made: only addresses are formed.
template <class T>
union Unmade {
    char none;
    T value;
    Unmade() : none{} {}
    ~Unmade() {}
};

template <class T>
std::vector<PartInfo> parts_of() {
    std::vector<PartInfo> parts;
    Unmade<T> storage;
    const auto* base = reinterpret_cast<const std::byte*>(&storage);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (parts.push_back({std::string(Parts<T>::template name<I>()),
                          static_cast<std::size_t>(reinterpret_cast<const std::byte*>(
                                                       &Parts<T>::template get<I>(storage.value)) -
                                                   base),
                          &type_info<PartType<T, I>>}),
         ...);
    }
    (std::make_index_sequence<Parts<T>::kCount>{});
    return parts;
}

template <class T>
TypeInfo make_type_info() {
    TypeInfo info;
    info.form = kForm<T>;
    info.bytes = sizeof(T);
    info.alignment = alignof(T);
    if constexpr (kForm<T> == Form::boolean) {
        info.name = "bool";
    } else if constexpr (kForm<T> == Form::scalar) {
        info.name = scalar_name<T>();
    } else if constexpr (kForm<T> == Form::product) {
        info.name = PairTraits<T>::value ? "pair" : type_name<T>();
        info.parts = parts_of<T>();
    } else if constexpr (kForm<T> == Form::array || kForm<T> == Form::optional) {
        info.name = kForm<T> == Form::array ? "array" : "optional";
        info.element = &type_info<Held<T>>;
        if constexpr (kForm<T> == Form::array) info.count = ArrayTraits<T>::kCount;
    } else {
        info.name = kForm<T> == Form::pointer ? "pointer"
                    : kForm<T> == Form::text  ? "string"
                                              : "vector";
        info.element = &type_info<Target<T>>;
        if constexpr (kForm<T> == Form::text)
            info.polymorphic_allocator = TextTraits<T>::kPolymorphic;
        if constexpr (kForm<T> == Form::sequence)
            info.polymorphic_allocator = SequenceTraits<T>::kPolymorphic;
    }
    return info;
}

}  // namespace detail

template <class T>
const TypeInfo& type_info() {
    static const TypeInfo info = detail::make_type_info<T>();
    return info;
}

}  // namespace verbatim::objects

// Probes the standard library's layout once, with live objects.
#include <verbatim/objects/libstdcxx.hpp>

#include <cstring>
#include <optional>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/libstdcxx_values.hpp>

namespace verbatim::objects {
namespace {

template <class Image, class T>
Image image_of(const T& object, std::size_t skip) {
    Image image;
    static_assert(sizeof image <= sizeof object);
    std::memcpy(&image, reinterpret_cast<const std::byte*>(&object) + skip, sizeof image);
    return image;
}

template <bool Polymorphic, class String>
bool string_is_as_known() {
    using Image = StringImage<char>;
    constexpr std::size_t kSkip = kAllocatorBytes<Polymorphic>;
    if (sizeof(String) != kSkip + sizeof(Image)) return false;
    const String local("short"), outside(Image::kLocal + 1, 'x');
    const auto a = image_of<Image>(local, kSkip), b = image_of<Image>(outside, kSkip);
    return a.size == 5 &&
           a.data == reinterpret_cast<const std::byte*>(&local) + kSkip + offsetof(Image, local) &&
           b.size == Image::kLocal + 1 && b.capacity == outside.capacity() &&
           b.data == reinterpret_cast<const std::byte*>(outside.data()) &&
           String(Image::kLocal, 'x').capacity() == Image::kLocal;
}

template <bool Polymorphic, class Vector>
bool vector_is_as_known() {
    constexpr std::size_t kSkip = kAllocatorBytes<Polymorphic>;
    if (sizeof(Vector) != kSkip + sizeof(VectorImage)) return false;
    Vector vector;
    vector.reserve(3);
    vector.push_back(1);
    const auto image = image_of<VectorImage>(vector, kSkip);
    const auto* data = reinterpret_cast<const std::byte*>(vector.data());
    return image.begin == data && image.end == data + sizeof(int) &&
           image.capacity_end == data + vector.capacity() * sizeof(int);
}

// The flag of an optional follows its value.
bool optional_is_as_known() {
    std::optional<std::uint32_t> value(7);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    if (optional_flag(bytes, sizeof(std::uint32_t)) != std::byte{1}) return false;
    value.reset();
    return optional_flag(bytes, sizeof(std::uint32_t)) == std::byte{0};
}

}  // namespace

void verify_library_layout() {
    static const bool known =
        string_is_as_known<false, std::string>() && string_is_as_known<true, std::pmr::string>() &&
        vector_is_as_known<false, std::vector<int>>() &&
        vector_is_as_known<true, std::pmr::vector<int>>() &&
        sizeof(std::unique_ptr<int>) == sizeof(int*) && optional_is_as_known() &&
        value_layouts_are_known() && containers_are_as_known();
    if (!known)
        throw Error(Errc::unsupported, "standard library",
                    "it lays out std::string, std::vector or another type in a way this build does "
                    "not know",
                    "build verbatim and the application with the same libstdc++ (g++ or clang with "
                    "libstdc++)");
}

}  // namespace verbatim::objects

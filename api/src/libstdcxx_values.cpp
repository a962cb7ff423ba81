// Probes the layout of variants, bitsets, views and counted pointers once, with live objects.
#include <verbatim/objects/libstdcxx_values.hpp>

#include <bitset>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace verbatim::objects {
namespace {

// Counts that belong to a received graph.
class LastingBlock final : public std::_Sp_counted_base<> {
  public:
    void _M_dispose() noexcept override {}
    void _M_destroy() noexcept override {}
    void* _M_get_deleter(const std::type_info&) noexcept override { return nullptr; }
};
static_assert(sizeof(LastingBlock) == sizeof(ControlBlock) &&
              alignof(LastingBlock) == alignof(ControlBlock));

template <class Image, class T>
Image value_image_of(const T& object) {
    Image image;
    static_assert(sizeof image == sizeof object);
    std::memcpy(&image, static_cast<const void*>(&object), sizeof image);
    return image;
}

template <class Value, class... Types>
bool variant_is_as_known(std::size_t number, const Value& value) {
    using Variant = std::variant<Types...>;
    const Variant variant(value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&variant);
    return VariantImage<Types...>::index(bytes) == number &&
           reinterpret_cast<const std::byte*>(&std::get<Value>(variant)) == bytes;
}

struct ThrowsWhenMoved {
    ThrowsWhenMoved() = default;
    ThrowsWhenMoved(const ThrowsWhenMoved&) = default;
    ThrowsWhenMoved(ThrowsWhenMoved&&) { throw 0; }
    ThrowsWhenMoved& operator=(const ThrowsWhenMoved&) = default;
    ThrowsWhenMoved& operator=(ThrowsWhenMoved&&) = default;
};
bool valueless_is_as_known() {
    std::variant<int, ThrowsWhenMoved> variant(1);
    try {
        variant.emplace<1>(ThrowsWhenMoved());
    } catch (int) {
    }
    using Image = VariantImage<int, ThrowsWhenMoved>;
    return variant.valueless_by_exception() &&
           Image::index(reinterpret_cast<const std::byte*>(&variant)) == Image::kValueless;
}

bool bitset_is_as_known() {
    std::bitset<70> bits;
    bits[3] = bits[69] = true;
    struct Words {
        std::uint64_t low, high;
    };
    const auto words = value_image_of<Words>(bits);
    return words.low == 8 && words.high == 32;
}

bool views_are_as_known() {
    static constexpr char text[] = "text";
    const auto view = value_image_of<StringViewImage>(std::string_view(text, 3));
    const auto span = value_image_of<SpanImage>(std::span<const char>(text, 3));
    const auto fixed = value_image_of<const char*>(std::span<const char, 3>(text, 3));
    const auto* data = reinterpret_cast<const std::byte*>(text);
    return view.size == 3 && view.data == data && span.size == 3 && span.data == data &&
           fixed == text;
}

struct Self : std::enable_shared_from_this<Self> {
    int value = 0;
};
bool counted_pointers_are_as_known() {
    const auto one = std::make_shared<Self>();
    const std::weak_ptr<Self> weak = one;
    const std::shared_ptr<Self> two = one;
    const auto image = value_image_of<CountedPointerImage>(two);
    const auto weak_image = value_image_of<CountedPointerImage>(weak);
    const auto self = value_image_of<CountedPointerImage>(
        static_cast<const std::enable_shared_from_this<Self>&>(*one));
    const auto* target = reinterpret_cast<const std::byte*>(one.get());
    return image.target == target && weak_image.target == target && self.target == target &&
           weak_image.block == image.block && self.block == image.block &&
           owners_of(image.block) == 2;
}

bool lasting_block_is_as_known() {
    ControlBlock block;
    make_lasting_block(&block);
    return owners_of(&block) > 1;
}

}  // namespace

void make_lasting_block(ControlBlock* block) noexcept {
    auto* const made = ::new (static_cast<void*>(block)) LastingBlock;
    // The graph's own pointers are not counted: one that the program resets must not be the last.
    constexpr int kMany = 1 << 30;
    static_assert(sizeof(_Atomic_word) == sizeof kMany);
    std::memcpy(reinterpret_cast<std::byte*>(made) + sizeof(void*), &kMany, sizeof kMany);
}

bool value_layouts_are_known() {
    return variant_is_as_known<int, int, std::string>(0, 7) &&
           variant_is_as_known<std::string, int, std::string>(1, "text") &&
           variant_is_as_known<char, char, std::uint16_t>(0, 'x') && valueless_is_as_known() &&
           bitset_is_as_known() && views_are_as_known() && counted_pointers_are_as_known() &&
           lasting_block_is_as_known();
}

}  // namespace verbatim::objects

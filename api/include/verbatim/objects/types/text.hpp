// Pointers to characters point to text that ends with a zero, as in C: `const char*`, `char*`, and
// the same of wchar_t, char8_t, char16_t, char32_t. Other characters: VERBATIM_COUNTED, or
// std::string_view.
#pragma once

#include <string>
#include <type_traits>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class T>
inline constexpr bool kIsCharacter =
    std::is_same_v<T, char> || std::is_same_v<T, wchar_t> || std::is_same_v<T, char8_t> ||
    std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>;

template <class C>
requires(kIsCharacter<std::remove_const_t<C>>) struct Trait<C*> {
    using Character = std::remove_const_t<C>;
    using Parts = List<>;
    using Edges = List<ViewOf<Character>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return spell_template("text", {&TraitOf<C>::spell}); }
    static TypeInfo info() { return info_of_reference(&type_info<Character>); }
    template <class S>
    static void pack(S& sender, C* const& text, Slot slot) {
        sender.template text<Character>(text, slot);
    }
    template <class R>
    static void mend(R& receiver, C*& text) {
        receiver.template text<Character>(&text);
    }
};

}  // namespace verbatim::objects

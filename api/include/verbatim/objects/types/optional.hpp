// std::optional: its flag is checked before its value is looked at.
#pragma once

#include <cstring>
#include <optional>
#include <string>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class T>
struct Trait<std::optional<T>> {
    using Value = std::remove_cv_t<T>;
    using Parts = List<Value>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return spell_template("optional", {&TraitOf<T>::spell}); }
    static TypeInfo info() {
        TypeInfo info;
        info.choices = {&type_info<Value>};
        info.alive = [](const std::byte* object) -> std::size_t {
            return optional_is_engaged(object, sizeof(Value)) ? 0 : 1;
        };
        return info;
    }
    template <class S>
    static void pack(S& sender, const std::optional<T>& optional, Slot slot) {
        if constexpr (kHasReferences<T>)
            if (optional) TraitOf<T>::pack(sender, *optional, slot);
    }
    template <class R>
    static void mend(R& receiver, std::optional<T>& optional) {
        auto* const bytes = reinterpret_cast<std::byte*>(&optional);
        const std::byte flag = optional_flag(bytes, sizeof(Value));
        if (flag > std::byte{1}) receiver.corrupt("an optional is neither empty nor full");
        if constexpr (!verbatim::objects::kPlain<T>)
            if (flag == std::byte{1}) TraitOf<T>::mend(receiver, *reinterpret_cast<Value*>(bytes));
    }
};

}  // namespace verbatim::objects

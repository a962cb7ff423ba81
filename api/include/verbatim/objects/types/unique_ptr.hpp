// std::unique_ptr with the default deleter, to one object.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include <verbatim/objects/types/trait.hpp>

namespace verbatim::objects {

template <class T>
requires(!std::is_array_v<T>) struct Trait<std::unique_ptr<T, std::default_delete<T>>> {
    using Target = std::remove_cv_t<T>;
    using Pointer = std::unique_ptr<T, std::default_delete<T>>;
    using Parts = List<>;
    using Edges = List<OwnedOne<Target>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "unique_ptr<" + TraitOf<T>::spell() + ">"; }
    static TypeInfo info() {
        TypeInfo info;
        info.targets = {&type_info<Target>};
        return info;
    }
    template <class S>
    static void pack(S& sender, const Pointer& pointer, Slot) {
        if (pointer) sender.template owned<Target>(pointer.get(), 1);
    }
    template <class R>
    static void mend(R& receiver, Pointer& pointer) {
        void* target = nullptr;
        std::memcpy(&target, static_cast<const void*>(&pointer), sizeof target);
        if (target == nullptr) return;
        target = receiver.template owned<Target>(1);
        std::memcpy(static_cast<void*>(&pointer), &target, sizeof target);
    }
};

}  // namespace verbatim::objects

// std::unique_ptr to one object, with a deleter that holds nothing. It is never called: received
// objects end with their graph.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class T, class D>
struct Trait<std::unique_ptr<T, D>> {
    using Pointer = std::unique_ptr<T, D>;
    static_assert(
        !std::is_array_v<T>,
        "verbatim: a unique_ptr to an array does not know its length; name the member that "
        "has it in VERBATIM_COUNTED(Type, (pointer, count)), or use std::vector");
    static_assert(std::is_empty_v<D> && std::is_same_v<typename Pointer::pointer, T*>,
                  "verbatim: a unique_ptr whose deleter holds something, or that holds no plain "
                  "pointer, cannot be sent; use std::default_delete");
    using Target = std::remove_cv_t<T>;
    using Parts = List<>;
    using Edges = List<OwnedOne<Target>>;
    static constexpr bool kPlain = false;
    static constexpr bool kTellsAddresses = true;
    static std::string spell() { return spell_template("unique_ptr", {&TraitOf<T>::spell}); }
    static TypeInfo info() { return info_of_reference(&type_info<Target>); }
    template <class S>
    static void pack(S& sender, const Pointer& pointer, Slot slot) {
        if constexpr (kIsDynamic<Target>)
            sender.template pointer<Target>(pointer.get(), slot);
        else if (pointer)
            sender.template owned<Target>(pointer.get(), 1);
    }
    template <class R>
    static void mend(R& receiver, Pointer& pointer) {
        if constexpr (kIsDynamic<Target>) {
            receiver.template pointer<Target>(&pointer);
        } else {
            void* target = nullptr;
            std::memcpy(&target, static_cast<const void*>(&pointer), sizeof target);
            if (target == nullptr) return;
            target = owned_at<Target>(receiver, 1, target);
            std::memcpy(static_cast<void*>(&pointer), &target, sizeof target);
        }
    }
};

}  // namespace verbatim::objects

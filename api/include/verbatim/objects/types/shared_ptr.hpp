// std::shared_ptr, std::weak_ptr, std::enable_shared_from_this: what is shared stays shared.
//
// Nothing of a received graph is ever freed by its pointers. So counts are needed only where
// something asks for them: in closures with weak pointers. There each block of counts arrives as
// one that lasts as long as the graph. Elsewhere pointers arrive without one, and use_count() is 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include <verbatim/objects/libstdcxx_values.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// The sender's bytes only tell blocks apart.
template <>
struct Trait<ControlBlock> {
    using Parts = List<>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "control block"; }
    static TypeInfo info() { return {}; }
    template <class R>
    static void mend(R&, ControlBlock& block) {
        make_lasting_block(&block);
    }
};

namespace detail {

template <class T>
struct AsksForCounts : std::false_type {};
template <class T>
struct AsksForCounts<std::weak_ptr<T>> : std::true_type {};
template <class T>
struct AsksForCounts<std::enable_shared_from_this<T>> : std::true_type {};
// `Types`: a closure. Classes that it does not know may ask for counts.
template <class Types>
inline constexpr bool kHasCounts = [] {
    if constexpr (Types::kIsOpen)
        return true;
    else
        return boost::mp11::mp_any_of<typename Types::Types, AsksForCounts>::value;
}();

template <class T>
struct CountedPointerTrait {
    static_assert(!std::is_void_v<T>,
                  "verbatim: a shared pointer to void does not say what it points to; use a typed "
                  "pointer");
    static_assert(!std::is_array_v<T>,
                  "verbatim: a shared pointer to an array does not know its length; share a "
                  "std::vector");
    static_assert(!std::is_function_v<T>,
                  "verbatim: a function pointer means nothing in another process; send an index or "
                  "a name");
    static_assert(!std::is_volatile_v<T>, "verbatim: volatile objects cannot be sent");
    using Image = CountedPointerImage;
    using Target = std::remove_cv_t<T>;
    using Parts = List<>;
    using Edges = List<PointerTo<Target>, PointerTo<ControlBlock>>;
    static constexpr bool kPlain = false;
    static TypeInfo info() { return info_of_reference(&type_info<Target>); }
    template <class R>
    static void mend(R& receiver, auto& pointer) {
        auto* const bytes = reinterpret_cast<std::byte*>(&pointer);
        receiver.template pointer<Target>(bytes + offsetof(Image, target));
        std::byte* const block = bytes + offsetof(Image, block);
        if constexpr (kHasCounts<typename R::Types>)
            receiver.template pointer<ControlBlock>(block);
        else
            std::memset(block, 0, sizeof(void*));
    }

  protected:
    template <class S>
    static void pack_image(S& sender, const Image& image, Slot slot) {
        sender.template pointer<Target>(reinterpret_cast<const Target*>(image.target),
                                        slot.at(offsetof(Image, target)));
        if constexpr (kHasCounts<typename S::Types>)
            sender.template pointer<ControlBlock>(image.block, slot.at(offsetof(Image, block)));
    }
};

// The object that it refers to may be gone.
template <class T>
struct WeakPointerTrait : CountedPointerTrait<T> {
    using Base = CountedPointerTrait<T>;
    template <class S>
    static void pack(S& sender, const auto& pointer, Slot slot) {
        const auto image = objects::image_of(pointer);
        if (has_expired(image)) return sender.amend(slot, std::array<std::byte, sizeof image>{});
        Base::pack_image(sender, image, slot);
    }
};

}  // namespace detail

template <class T>
struct Trait<std::shared_ptr<T>> : detail::CountedPointerTrait<T> {
    using Base = detail::CountedPointerTrait<T>;
    static std::string spell() { return spell_template("shared_ptr", {&TraitOf<T>::spell}); }
    template <class S>
    static void pack(S& sender, const std::shared_ptr<T>& pointer, Slot slot) {
        Base::pack_image(sender, objects::image_of(pointer), slot);
    }
};

template <class T>
struct Trait<std::weak_ptr<T>> : detail::WeakPointerTrait<T> {
    static std::string spell() { return spell_template("weak_ptr", {&TraitOf<T>::spell}); }
};

// The base class of objects that give out pointers to themselves.
template <class T>
struct Trait<std::enable_shared_from_this<T>> : detail::WeakPointerTrait<T> {
    static std::string spell() {
        return spell_template("enable_shared_from_this", {&TraitOf<T>::spell});
    }
};

}  // namespace verbatim::objects

// The walks over open graphs: one packer and one mender serve all their roots and classes. What
// they call by the numbers of types, and the registration of classes, is made here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeinfo>

#include <verbatim/objects/clones/class_cloning.hpp>
#include <verbatim/objects/graph/mender.hpp>
#include <verbatim/objects/graph/open_closure.hpp>
#include <verbatim/objects/graph/packer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim::objects {

using OpenPacker = Packer<OpenGraph>;
using OpenMender = Mender<OpenGraph>;

namespace detail {

template <class E>
std::uint64_t OpenWalks<E>::take_in(Packing& packing, const std::byte* first, std::uint64_t count) {
    return static_cast<OpenPacker&>(packing).take_in(reinterpret_cast<const E*>(first), count);
}
template <class E>
void OpenWalks<E>::follow(Packing& packing, const std::byte* first, std::uint64_t count) {
    static_cast<OpenPacker&>(packing).follow(reinterpret_cast<const E*>(first), count, {});
}
template <class E>
std::byte* OpenWalks<E>::place(Mending& mending, std::uint64_t count) {
    return reinterpret_cast<std::byte*>(static_cast<OpenMender&>(mending).template place<E>(count));
}

template <class E>
std::byte* OpenWalks<E>::place_one(Mending& mending) {
    return reinterpret_cast<std::byte*>(static_cast<OpenMender&>(mending).template place<E>(1));
}

template <class Root>
struct OpenWalks<RootOf<Root>> {
    static void take_in(Packing& packing, const void* root) {
        auto& packer = static_cast<OpenPacker&>(packing);
        const auto* const object = static_cast<const Root*>(root);
        if constexpr (kIsDynamic<Root>)
            ClassReferences<OpenPacker>::follow_root(packer, object);
        else
            packer.follow(object, 1, {});
    }
    static void* take(Mending& mending) {
        auto& mender = static_cast<OpenMender&>(mending);
        const bool is_told = mender.tables_.records.next() == 0;
        if constexpr (kIsDynamic<Root>) {
            if (is_told) return ClassMending<OpenMender>::template by_record<Root>(mender);
            return ClassMending<OpenMender>::place_any(mender, kOpenNumber<Root>, 1);
        } else {
            return is_told ? mender.template by_record<Root>(1) : mender.template place<Root>(1);
        }
    }
};
template <class Root>
inline constexpr OpenRoot kOpenRoot{&open_types_of<Root>, &OpenWalks<RootOf<Root>>::take_in,
                                    &OpenWalks<RootOf<Root>>::take};

// Of every described class with virtual functions.
template <class T>
struct RegisteredClass {
    static void add(const char* file) {
        static_assert(members_are_known__else_add_VERBATIM_DESCRIBE<T>());
        if constexpr (!std::is_abstract_v<T>) {
            static_assert(sizeof(T) < kClassMostBytes && largest_alignment() <= 64,
                          "verbatim: classes with virtual functions, and all that they lead to, "
                          "are aligned to 64 bytes at most, and take less than 512 MiB");
            register_class(kClass, file);
        }
    }

  private:
    static constexpr std::size_t largest_alignment() { return Closure<T>::kAlignment; }
    static std::uint16_t number() { return kOpenNumber<T>; }
    static void prepare() { prepare_tables<typename Closure<T>::Types>(); }
    static constexpr PolymorphicClass kClass{&typeid(T),
                                             &type_info<T>,
                                             &number,
                                             &open_types_of<T>,
                                             &ClassReferences<OpenPacker>::follow_as<T>,
                                             &prepare,
                                             class_cloning<T>()};
};

}  // namespace detail

// Of the roots of open graphs.
template <class Root>
requires(kIsOpen<Root>) class Packer<Root> final : public OpenPacker {
  public:
    Packer(PackTables& tables, const Root& root, PackOptions options)
        : OpenPacker(tables, OpenGraph{detail::kOpenRoot<Root>, &root}, options) {}
};
template <class Root>
requires(kIsOpen<Root>) class Mender<Root> final : public OpenMender {
  public:
    Mender(MendTables& tables, bool acyclic)
        : OpenMender((detail::prepare_tables<typename Closure<Root>::Types>(), tables), acyclic,
                     detail::kOpenRoot<Root>) {}
};

}  // namespace verbatim::objects

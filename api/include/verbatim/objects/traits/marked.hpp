// Members with a marking (describe/markings.hpp): those that stay behind, and pointers whose
// elements another member counts. Stand-ins of the same size take their places in the walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include <verbatim/objects/describe/markings.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class M>
struct TransientMember {
    alignas(M) std::byte bytes[sizeof(M)];
};
template <class M>
struct CountedMember {
    alignas(M) std::byte bytes[sizeof(M)];
};

template <class M>
struct CountedEdge {
    static_assert(sizeof(M) == 0,
                  "verbatim: VERBATIM_COUNTED names a member that is neither a raw pointer nor a "
                  "unique_ptr<T[]> with a deleter that holds nothing");
};
template <class E>
struct CountedEdge<E*> {
    using Type = ViewOf<std::remove_cv_t<E>>;
};
template <class E, class D>
requires(std::is_same_v<typename std::unique_ptr<E[], D>::pointer, E*>&&
             std::is_empty_v<D>) struct CountedEdge<std::unique_ptr<E[], D>> {
    using Type = OwnedArray<std::remove_cv_t<E>>;
};

// The members of T, marked ones replaced.
template <class T>
struct MarkedMembers : Members<T> {
    using Plain = Members<T>;

    template <std::size_t I>
    static constexpr auto& get(auto& object) noexcept {
        auto& member = Plain::template get<I>(object);
        if constexpr (leaves_out<I>())
            return as<TransientMember>(member);
        else if constexpr (counter<I>() != kNotMarked)
            return as<CountedMember>(member);
        else
            return member;
    }
    template <std::size_t I>
    static constexpr bool is_counted() noexcept {
        return counter<I>() != kNotMarked;
    }
    // Elements of the counted member; less than none is none. Any bytes are a valid count.
    template <std::size_t I>
    static std::uint64_t count(const T& object) noexcept {
        const auto& count = Plain::template get<counter<I>()>(object);
        static_assert(std::is_integral_v<std::remove_cvref_t<decltype(count)>> &&
                          !std::is_same_v<std::remove_cvref_t<decltype(count)>, bool>,
                      "verbatim: VERBATIM_COUNTED names a count that is not an integer");
        return count < 0 ? 0 : static_cast<std::uint64_t>(count);
    }

    static_assert(Described<T> || (transient_names<T>().empty() && counted_names<T>().empty()),
                  "verbatim: VERBATIM_TRANSIENT and VERBATIM_COUNTED need VERBATIM_DESCRIBE, which "
                  "tells the members' names");

  private:
    template <std::size_t I>
    static consteval bool leaves_out() {
        if constexpr (Described<T>)
            return is_transient<T, I>();
        else
            return false;
    }
    template <std::size_t I>
    static consteval std::size_t counter() {
        if constexpr (Described<T>)
            return counting_member<T, I>();
        else
            return kNotMarked;
    }
    static consteval bool has_known_names() {
        if constexpr (Described<T>)
            return are_members<T>(transient_names<T>()) && are_members<T>(counted_names<T>());
        else
            return true;
    }
    static_assert(has_known_names(),
                  "verbatim: VERBATIM_TRANSIENT or VERBATIM_COUNTED names something that is not a "
                  "described member");

    template <template <class> class Member, class M>
    static auto& as(M& member) noexcept {
        using StandIn = Member<std::remove_cv_t<M>>;
        return reinterpret_cast<std::conditional_t<std::is_const_v<M>, const StandIn, StandIn>&>(
            member);
    }
};

}  // namespace detail

// Its bytes mean nothing to the receiver.
template <class M>
struct Trait<detail::TransientMember<M>> {
    static_assert(
        std::is_default_constructible_v<M>,
        "verbatim: VERBATIM_TRANSIENT names a member without a default constructor, which "
        "the receiver needs");
    using Parts = List<>;
    using Edges = List<>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "transient of " + std::to_string(sizeof(M)) + " bytes"; }
    static TypeInfo info() { return {}; }
    template <class R>
    static void mend(R&, detail::TransientMember<M>& member) {
        ::new (static_cast<void*>(&member)) M{};
    }
};

// A counted raw pointer may be shared; null stays null, whatever the count is.
template <class M>
struct Trait<detail::CountedMember<M>> {
    using Edge = typename detail::CountedEdge<M>::Type;
    using Target = typename Edge::Target;
    using Parts = List<>;
    using Edges = List<Edge>;
    static constexpr bool kPlain = false;
    static constexpr bool kTellsAddresses = true;
    static std::string spell() {
        return spell_template(std::is_pointer_v<M> ? "counted pointer" : "counted unique_ptr",
                              {&TraitOf<Target>::spell});
    }
    static TypeInfo info() { return info_of_reference(&type_info<Target>); }
    template <class S>
    static void pack(S& sender, const detail::CountedMember<M>& member, Slot slot,
                     std::uint64_t count) {
        const Target* first = nullptr;
        std::memcpy(&first, &member, sizeof first);
        if (first == nullptr || count == 0) return;
        if constexpr (std::is_pointer_v<M>)
            sender.template view<Target>(first, count, slot);
        else
            sender.template owned<Target>(first, count);
    }
    template <class R>
    static void mend(R& receiver, detail::CountedMember<M>& member, std::uint64_t count) {
        const Target* first = nullptr;
        std::memcpy(&first, &member, sizeof first);
        if (first == nullptr || count == 0) {
            std::memset(&member, 0, sizeof first);
        } else if constexpr (std::is_pointer_v<M>) {
            receiver.template view<Target>(&member, count);
        } else {
            first = owned_at<Target>(receiver, count, first);
            std::memcpy(&member, &first, sizeof first);
        }
    }
};

}  // namespace verbatim::objects

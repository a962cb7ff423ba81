// A clone is a copy of a graph in ordinary objects on the heap, each with its usual owner. It ends
// by destructors, and its containers may grow. So every object needs an owner; a raw pointer, a
// view or a weak pointer stops compilation. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <forward_list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim::objects {
namespace detail {

template <class T>
struct CloneKind {
    static constexpr bool kUnique = false, kShared = false, kOptional = false, kVariant = false;
    static constexpr bool kString = false, kChain = false;
};
template <class T, class D>
struct CloneKind<std::unique_ptr<T, D>> : CloneKind<void> {
    static constexpr bool kUnique = true;
    static_assert(std::is_same_v<D, std::default_delete<T>>,
                  "verbatim: clone() makes objects with new, so a unique_ptr needs "
                  "std::default_delete");
};
template <class T>
struct CloneKind<std::shared_ptr<T>> : CloneKind<void> {
    static constexpr bool kShared = true;
};
template <class T>
struct CloneKind<std::optional<T>> : CloneKind<void> {
    static constexpr bool kOptional = true;
};
template <class... T>
struct CloneKind<std::variant<T...>> : CloneKind<void> {
    static constexpr bool kVariant = true;
};
template <class C, class A>
struct CloneKind<std::basic_string<C, std::char_traits<C>, A>> : CloneKind<void> {
    static constexpr bool kString = true;
};
template <class T, class A>
struct CloneKind<std::forward_list<T, A>> : CloneKind<void> {
    static constexpr bool kChain = true;
};

// Refers to what it need not own.
template <class T>
inline constexpr bool kLacksOwner = boost::mp11::mp_any_of<EdgesOf<T>, MayBeShared>::value;
template <class T>
concept ClonedSequence = requires(T& to, typename T::value_type&& value) {
    to.push_back(std::move(value));
};
template <class T>
concept ClonedProduct = requires {
    typename TraitOf<T>::ListedParts;
};

// An object that is made in place, and moved from there.
template <class T>
struct Made {
    Made() noexcept {}
    ~Made() { value().~T(); }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    T& value() noexcept { return *std::launder(reinterpret_cast<T*>(bytes)); }
    alignas(T) std::byte bytes[sizeof(T)];
};

}  // namespace detail

// What is left to be cloned: objects that have memory. Owners are filled in before, so that no
// chain of owners makes calls deep. Memory that runs out ends the program: half-made owners could
// not be destroyed.
class Cloning {
  public:
    // Memory as `delete` will free it. Its object is made by run().
    template <class T>
    std::remove_cv_t<T>* own(const T& from) {
        using Object = std::remove_cv_t<T>;
        static_assert(!std::is_polymorphic_v<Object>,
                      "verbatim: clone() cannot copy classes with virtual functions");
        void* to = nullptr;
        if constexpr (alignof(Object) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            to = ::operator new (sizeof(Object), std::align_val_t{alignof(Object)});
        else
            to = ::operator new(sizeof(Object));
        left_.push_back({&step<Object>, &from, to});
        return static_cast<Object*>(to);
    }
    void run() {
        while (!left_.empty()) {
            const Frame frame = left_.back();
            left_.pop_back();
            frame.step(*this, frame);
        }
    }

    template <class T>
    void make(const T& from, void* to) {
        using Kind = detail::CloneKind<T>;
        if constexpr (Kind::kUnique)
            make_unique(from, to);
        else if constexpr (Kind::kShared)
            make_shared(from, to);
        else if constexpr (!kHasReferences<T> && std::is_trivially_copyable_v<T>)
            std::memcpy(to, static_cast<const void*>(&from), sizeof(T));
        else if constexpr (detail::ClonedProduct<T>)
            make_parts<T>(from, static_cast<std::byte*>(to));
        else if constexpr (std::is_array_v<T> || requires { std::tuple_size<T>::value; })
            make_elements(from, static_cast<std::byte*>(to));
        else
            make_value(from, to);
    }

  private:
    struct Frame {
        void (*step)(Cloning&, const Frame&) = nullptr;
        const void* from = nullptr;
        void* to = nullptr;
    };
    template <class T>
    static void step(Cloning& cloning, const Frame& frame) {
        cloning.make(*static_cast<const T*>(frame.from), frame.to);
    }
    template <class T>
    T made(const T& from) {
        detail::Made<T> made;
        make(from, made.bytes);
        return std::move(made.value());
    }

    template <class T>
    void make_unique(const std::unique_ptr<T>& from, void* to) {
        ::new (to) std::unique_ptr<T>(from ? own(*from) : nullptr);
    }
    template <class T>
    void make_shared(const std::shared_ptr<T>& from, void* to) {
        using Object = std::remove_cv_t<T>;
        static_assert(!detail::kHasCounts<Closure<Object>>,
                      "verbatim: clone() cannot copy weak pointers; use compact()");
        if (!from) return void(::new (to) std::shared_ptr<T>());
        std::shared_ptr<void>& known = shared_[{from.get(), &kTypeKey<Object>}];
        if (!known) known = std::shared_ptr<Object>(own(*from));
        ::new (to) std::shared_ptr<T>(std::static_pointer_cast<Object>(known));
    }

    // Bases come last in the list, and first here: their padding may hold members.
    template <class T>
    void make_parts(const T& from, std::byte* to) {
        using Trait = TraitOf<T>;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (make_part<T, sizeof...(I) - 1 - I>(from, to), ...);
        }
        (typename Trait::Indices{});
    }
    template <class T, std::size_t I>
    void make_part(const T& from, std::byte* to) {
        using Listed = typename TraitOf<T>::ListedParts;
        const auto& part = Listed::template get<I>(from);
        using Part = std::remove_cvref_t<decltype(part)>;
        if constexpr (std::is_empty_v<Part>) return;
        std::byte* const at = to + (reinterpret_cast<const std::byte*>(&part) -
                                    reinterpret_cast<const std::byte*>(&from));
        if constexpr (Listed::template is_counted<I>())
            make_counted(part, at, Listed::template count<I>(from));
        else
            make_member(part, at);
    }
    template <class M>
    void make_member(const M& from, std::byte* to) {
        make(from, to);
    }
    template <class M>
    void make_member(const detail::TransientMember<M>&, std::byte* to) {
        ::new (static_cast<void*>(to)) M{};
    }
    template <class M>
    void make_counted(const detail::CountedMember<M>& from, std::byte* to, std::uint64_t count) {
        static_assert(!std::is_pointer_v<M>,
                      "verbatim: clone() needs an owner for every object, which a counted raw "
                      "pointer is not; use compact()");
        using Element = typename M::element_type;
        const auto& first = reinterpret_cast<const M&>(from);
        auto* const array = first ? new std::remove_cv_t<Element>[count] : nullptr;
        for (std::uint64_t i = 0; first && i < count; ++i) array[i] = made(first[i]);
        ::new (static_cast<void*>(to)) M(array);
    }
    template <class T>
    void make_elements(const T& from, std::byte* to) {
        for (const auto& element : from)
            make(element, to + (reinterpret_cast<const std::byte*>(&element) -
                                reinterpret_cast<const std::byte*>(&from)));
    }

    template <class T>
    void make_value(const T& from, void* to) {
        using Kind = detail::CloneKind<T>;
        static_assert(!detail::kLacksOwner<T>,
                      "verbatim: clone() needs an owner for every object, which a raw pointer, a "
                      "view or a weak pointer is not; use compact()");
        if constexpr (Kind::kString) {
            ::new (to) T(from.data(), from.size());
        } else if constexpr (Kind::kOptional) {
            auto* const made_here = ::new (to) T();
            if (from) made_here->emplace(made(*from));
        } else if constexpr (Kind::kVariant) {
            make_variant(from, to);
        } else {
            fill(from, *::new (to) T());
        }
    }
    template <class... A>
    void make_variant(const std::variant<A...>& from, void* to) {
        using Variant = std::variant<A...>;
        std::memcpy(to, static_cast<const void*>(&from), sizeof from);  // valueless ones stay so
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (void)((from.index() == I &&
                    (::new (to) Variant(std::in_place_index<I>, made(std::get<I>(from))), true)) ||
                   ...);
        }
        (std::index_sequence_for<A...>{});
    }
    template <class T>
    void fill(const T& from, T& to) {
        if constexpr (requires { to.reserve(from.size()); }) to.reserve(from.size());
        if constexpr (requires { typename T::mapped_type; }) {
            for (const auto& [key, value] : from) to.emplace_hint(to.end(), made(key), made(value));
        } else if constexpr (requires { typename T::key_type; }) {
            for (const auto& key : from) to.emplace_hint(to.end(), made(key));
        } else if constexpr (detail::CloneKind<T>::kChain) {
            auto last = to.before_begin();
            for (const auto& value : from) last = to.insert_after(last, made(value));
        } else {
            static_assert(detail::ClonedSequence<T>,
                          "verbatim: clone() does not know how to fill this type; use compact()");
            for (const typename T::value_type& value : from) to.push_back(made(value));
        }
    }

    struct Target {
        const void* object;
        const TypeKey* type;
        friend bool operator==(const Target&, const Target&) = default;
        friend std::size_t hash_value(const Target& target) noexcept {
            std::size_t seed = 0;
            boost::hash_combine(seed, target.object);
            boost::hash_combine(seed, target.type);
            return seed;
        }
    };
    std::vector<Frame> left_;
    boost::unordered_flat_map<Target, std::shared_ptr<void>> shared_;
};

template <class T>
std::unique_ptr<T> clone_graph(const T& root) noexcept {
    Cloning cloning;
    T* const clone = cloning.own(root);
    cloning.run();
    return std::unique_ptr<T>(clone);
}

}  // namespace verbatim::objects

// Cloning copies a graph into ordinary objects on the heap, each with its usual owner. They end by
// destructors, and their containers may grow. So every object needs an owner; a raw pointer or a
// view stops compilation. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <verbatim/objects/classes/cloned_classes.hpp>
#include <verbatim/objects/clones/clone_kinds.hpp>
#include <verbatim/objects/clones/clone_target.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim::objects {

// What is left to be cloned: objects that have memory. Owners are filled in before, so that no
// chain of owners makes calls deep. Memory that runs out ends the program: half-made owners could
// not be destroyed.
class Cloning {
  public:
    explicit Cloning(ClonedClasses& classes) noexcept : classes_(classes) {}

    // A part of memory as `delete` will free it. The whole object there is made by run(); it may be
    // of a derived class.
    template <class T>
    std::remove_cv_t<T>* own(const T& from) {
        using Object = std::remove_cv_t<T>;
        if constexpr (kIsDynamic<Object>) {
            static_assert(std::has_virtual_destructor_v<Object>,
                          "verbatim: clone() makes objects that end by a pointer to their base "
                          "class, which needs a virtual destructor");
            const ClonedClasses::Known known = classes_.find(&from);
            return part_of<Object>(known.of->cloning->own(*this, whole_of(from, known)), known);
        } else {
            return own_whole(from);
        }
    }
    // The same of an object that is exactly a T.
    template <class T>
    std::remove_cv_t<T>* own_whole(const T& from) {
        using Object = std::remove_cv_t<T>;
        void* const to = memory_for<Object>();
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
            ::new (to) T(shared_clone<typename T::element_type>(from.get()));
        else if constexpr (Kind::kWeak)
            ::new (to) T(shared_clone<typename T::element_type>(detail::target_of(from)));
        else if constexpr (Kind::kSelf)
            return;  // the owner of the object has made it
        else if constexpr (detail::kIsCopied<T>)
            std::memcpy(to, static_cast<const void*>(&from), sizeof(T));
        else if constexpr (detail::ClonedProduct<T>)
            make_parts<T>(from, static_cast<std::byte*>(to));
        else if constexpr (detail::kIsClonedArray<T>)
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

    template <class Object>
    static void* memory_for() {
        void* const memory = new_memory<Object>();
        if constexpr (detail::GivesItself<Object>::value) std::memset(memory, 0, sizeof(Object));
        return memory;
    }
    template <class Object>
    static void* new_memory() {
        if constexpr (requires { Object::operator new(sizeof(Object)); })
            return Object::operator new(sizeof(Object));
        else if constexpr (alignof(Object) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            return ::operator new (sizeof(Object), std::align_val_t{alignof(Object)});
        else
            return ::operator new(sizeof(Object));
    }
    template <class T>
    static const void* whole_of(const T& part, ClonedClasses::Known known) noexcept {
        return reinterpret_cast<const std::byte*>(&part) - known.delta;
    }
    template <class T>
    static T* part_of(void* whole, ClonedClasses::Known known) noexcept {
        return reinterpret_cast<T*>(static_cast<std::byte*>(whole) + known.delta);
    }

    template <class T, class D>
    void make_unique(const std::unique_ptr<T, D>& from, void* to) {
        static_assert(std::is_same_v<D, std::default_delete<T>>,
                      "verbatim: clone() makes objects with new, so a unique_ptr needs "
                      "std::default_delete");
        ::new (to) std::unique_ptr<T>(from ? own(*from) : nullptr);
    }
    // Made when a shared or weak pointer first leads to it. If no shared one does, it ends with
    // this cloning, and the weak ones have expired.
    template <class T>
    std::shared_ptr<T> shared_clone(const T* from) {
        using Object = std::remove_cv_t<T>;
        if (from == nullptr) return nullptr;
        if constexpr (kIsDynamic<Object>) {
            const ClonedClasses::Known known = classes_.find(from);
            const void* const whole = whole_of(*from, known);
            std::shared_ptr<void>& owner = shared_[{whole, &known.of->info()}];
            if (!owner) owner = known.of->cloning->share(*this, whole);
            return std::shared_ptr<T>(owner, part_of<Object>(owner.get(), known));
        } else {
            std::shared_ptr<void>& owner = shared_[{from, &type_info<Object>()}];
            if (!owner) owner = std::shared_ptr<Object>(own_whole(*from));
            return std::static_pointer_cast<Object>(owner);
        }
    }

    // Bases come last in the list, and first here: their padding may hold members. The virtual
    // table is that of the whole object, of which this may be a base.
    template <class T>
    void make_parts(const T& from, std::byte* to) {
        using Trait = TraitOf<T>;
        if constexpr (detail::kHasFirstTable<T>)
            std::memcpy(to, static_cast<const void*>(&from), sizeof(void*));
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
                      "verbatim: clone() needs an owner for every object, which a raw pointer or a "
                      "view is not; use compact()");
        if constexpr (Kind::kString) {
            ::new (to) T(from);
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
        if constexpr (detail::ClonedMap<T>) {
            for (const auto& [key, value] : from) to.emplace_hint(to.end(), made(key), made(value));
        } else if constexpr (detail::ClonedSet<T>) {
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

    ClonedClasses& classes_;
    std::vector<Frame> left_;
    std::unordered_map<CloneTarget, std::shared_ptr<void>, CloneTarget::Hash> shared_;
};

}  // namespace verbatim::objects

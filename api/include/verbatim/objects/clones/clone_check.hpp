// A clone check looks at all owners of a graph before its clone is made. Each object must be of a
// class that can be cloned, and a unique_ptr must be the only owner. A peer can send graphs in
// which that is not so, such as circles of unique_ptr. Graphs without pointers to base classes need
// none. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/classes/cloned_classes.hpp>
#include <verbatim/objects/clones/clone_kinds.hpp>
#include <verbatim/objects/clones/clone_target.hpp>
#include <verbatim/objects/clones/owned_objects.hpp>

namespace verbatim::objects {

class CloneCheck {
  public:
    explicit CloneCheck(ClonedClasses& classes) noexcept : classes_(classes) {}

    // Throws Error(unsupported | bad_pointer).
    template <class T>
    void run(const T& root) {
        follow<std::remove_cv_t<T>, true>(root);
        while (!left_.empty()) {
            const Frame frame = left_.back();
            left_.pop_back();
            frame.step(*this, frame.object);
        }
    }
    // The owners in an object.
    template <class T>
    void look(const T& object) {
        using Kind = detail::CloneKind<T>;
        if constexpr (!detail::kMeetsClasses<T>) {
            return;
        } else if constexpr (Kind::kWeak) {
            if (const auto* const target = detail::target_of(object))
                follow<typename Kind::Target, false>(*target);
        } else if constexpr (detail::kIsOwner<T>) {
            if (object) follow<typename Kind::Target, Kind::kUnique>(*object);
        } else if constexpr (detail::ClonedProduct<T>) {
            look_at_parts(object, typename TraitOf<T>::Indices{});
        } else if constexpr (Kind::kOptional) {
            if (object) look(*object);
        } else if constexpr (Kind::kVariant) {
            if (!object.valueless_by_exception())
                std::visit([this](const auto& value) { this->look(value); }, object);
        } else {
            for (const auto& element : object) look(element);
        }
    }

  private:
    struct Frame {
        void (*step)(CloneCheck&, const void*) = nullptr;
        const void* object = nullptr;
    };
    template <class T>
    static void step(CloneCheck& check, const void* object) {
        check.look(*static_cast<const T*>(object));
    }

    template <class T, std::size_t... I>
    void look_at_parts(const T& object, std::index_sequence<I...>) {
        (look_at_part<I>(object), ...);
    }
    template <std::size_t I, class T>
    void look_at_part(const T& object) {
        using Listed = typename TraitOf<T>::ListedParts;
        const auto& part = Listed::template get<I>(object);
        if constexpr (Listed::template is_counted<I>())
            look_at_counted(part, Listed::template count<I>(object));
        else
            look(part);
    }
    template <class M>
    void look_at_counted(const detail::CountedMember<M>& part, std::uint64_t count) {
        const auto& first = reinterpret_cast<const M&>(part);
        for (std::uint64_t i = 0; first && i < count; ++i) look(first[i]);
    }

    template <class T, bool IsSole>
    void follow(const T& target) {
        if constexpr (kIsDynamic<T>) {
            const ClonedClasses::Known known = classes_.find(&target);
            const void* const whole = reinterpret_cast<const std::byte*>(&target) - known.delta;
            if (is_new(whole, *known.of, IsSole))
                left_.push_back({known.of->cloning->check, whole});
        } else if constexpr (detail::kMeetsClasses<T>) {
            if (IsSole || shared_.insert({&target, &type_info<T>()}).second)
                left_.push_back({&step<T>, &target});
        }
    }
    bool is_new(const void* whole, const PolymorphicClass& of, bool is_sole) {
        const OwnedObjects::Met before = owned_.add(whole, is_sole);
        if (before == OwnedObjects::Met::first) return true;
        if (is_sole || before == OwnedObjects::Met::by_sole_owner)
            throw Error(Errc::bad_pointer, "clone of " + of.info().spelled(),
                        "an object has two owners, and one is a unique_ptr",
                        "own it by one unique_ptr, or by shared_ptr alone");
        return false;
    }

    ClonedClasses& classes_;
    std::vector<Frame> left_;
    OwnedObjects owned_;                                         // of registered classes
    std::unordered_set<CloneTarget, CloneTarget::Hash> shared_;  // others
};

}  // namespace verbatim::objects

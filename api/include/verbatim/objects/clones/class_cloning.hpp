// Class cloning is how a described class clones its objects; it registers that. Here is the clone
// of a whole graph, too.
#pragma once

#include <memory>

#include <verbatim/objects/clones/clone_check.hpp>
#include <verbatim/objects/clones/cloning.hpp>

namespace verbatim::objects {
namespace detail {

template <class T>
struct ClassClones {
    static void* own(Cloning& cloning, const void* object) {
        return cloning.own_whole(*static_cast<const T*>(object));
    }
    static std::shared_ptr<void> share(Cloning& cloning, const void* object) {
        return std::shared_ptr<T>(cloning.own_whole(*static_cast<const T*>(object)));
    }
    static void check(CloneCheck& check, const void* object) {
        check.look(*static_cast<const T*>(object));
    }
    static constexpr ClassCloning kCloning{&own, &share, &check};
};
template <class T>
constexpr const ClassCloning* class_cloning() {
    if constexpr (kCanBeCloned<T>)
        return &ClassClones<T>::kCloning;
    else
        return nullptr;
}

// Memory that runs out ends the program.
template <class T>
std::unique_ptr<T> clone_checked(const T& root, ClonedClasses& classes) noexcept {
    Cloning cloning(classes);
    T* const clone = cloning.own(root);
    cloning.run();
    return std::unique_ptr<T>(clone);
}

}  // namespace detail

// Throws Error(unsupported: a class cannot be cloned | bad_pointer: an object has two owners), only
// of graphs with pointers to base classes.
template <class T>
std::unique_ptr<T> clone_graph(const T& root) {
    ClonedClasses classes;
    if constexpr (kIsDynamic<T> || detail::kMeetsClasses<T>) CloneCheck(classes).run(root);
    return detail::clone_checked(root, classes);
}

}  // namespace verbatim::objects

// The traversal that sender and receiver share goes depth first, in member order. So both meet the
// references of a graph in the same order and only exceptions travel (Naos §3.1, §3.3). An explicit
// stack holds the work left; data can make it long, never the call chain deep.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/forms.hpp>

namespace verbatim::objects {

// Objects met for the first time; none if null or met before.
template <class E>
struct Found {
    E* first = nullptr;
    std::uint64_t count = 0;
};

// Pointers whose targets end the walk: long arrays of them get a loop of their own.
template <class E>
consteval bool is_leaf_pointer() {
    if constexpr (kForm<E> == Form::pointer)
        return !kHasReferences<Target<E>>;
    else
        return false;
}
template <class E>
inline constexpr bool kLeafPointer = is_leaf_pointer<E>();

// Side follows references. It has these functions:
//   Found<Target<T>> follow<T>(T& reference)   for pointers, strings and vectors
//   void follow_leaves<P>(P* first, count)     for many pointers whose targets refer to nothing
//   std::uint64_t follow_likely<P>(P* first, count)   follows the first few of an array of pointers
//                                              if they lead nowhere new; returns their number
//   bool engaged<T>(T& optional)
// Threads: one.
template <class Side>
class Walk {
  public:
    struct Frame {
        void (*step)(Walk&, std::byte* at, std::uint64_t count);
        std::byte* at;
        std::uint64_t count;
    };
    using Stack = Column<Frame>;

    Walk(Side& side, Stack& stack) noexcept : side_(side), stack_(stack) {}

    // Walks everything reachable from objects that the side has already taken in.
    template <class T>
    void run(Found<T> root) {
        if constexpr (kHasReferences<T>) {
            stack_.clear();
            visit_objects(root);
            while (!stack_.empty()) {
                const Frame frame = stack_.back();
                stack_.pop_back();
                frame.step(*this, frame.at, frame.count);
            }
        }
    }

  private:
    // New objects: shallow ones at once, others from the stack.
    template <class E>
    void visit_objects(Found<E> found) {
        if constexpr (kHasReferences<E>) {
            if constexpr (kLeafPointer<E>)
                side_.follow_leaves(found.first, found.count);
            else if constexpr (kShallow<E>)
                for (E *e = found.first, *end = e + found.count; e != end; ++e) visit(*e);
            else if (found.count > 0)
                stack_.push_back(
                    {&step<E, 0>, reinterpret_cast<std::byte*>(found.first), found.count});
        }
    }

    // Puts off the rest of the current visit until everything above `depth` is done.
    template <class E, std::size_t Part>
    void put_off(std::size_t depth, E* at, std::uint64_t count) {
        stack_.insert_at(depth, {&step<E, Part>, reinterpret_cast<std::byte*>(at), count});
    }

    // Visits `count` objects, the first of them from its part `Part` on. Stops where one of them
    // leads to something that must be walked before the rest.
    template <class E, std::size_t Part>
    static void step(Walk& walk, std::byte* at, std::uint64_t count) {
        E* object = reinterpret_cast<E*>(at);
        E* const end = object + count;
        const std::size_t depth = walk.stack_.size();
        if constexpr (Part > 0) walk.template visit_parts<E, Part>(*object++);
        while (walk.stack_.size() == depth) {
            if constexpr (kForm<E> == Form::pointer)
                object +=
                    walk.side_.follow_likely(object, static_cast<std::uint64_t>(end - object));
            if (object == end) return;
            walk.visit(*object++);
        }
        if (object != end)
            walk.template put_off<E, 0>(depth, object, static_cast<std::uint64_t>(end - object));
    }

    // Parts from `Part` on. If one of them leads deep, the parts after it are put off.
    template <class T, std::size_t Part>
    void visit_parts(T& object) {
        if constexpr (Part < Parts<T>::kCount) {
            using P = PartType<T, Part>;
            if constexpr (kHasReferences<P>) {
                const std::size_t depth = stack_.size();
                visit(Parts<T>::template get<Part>(object));
                if constexpr (!kShallow<P> && has_references_from<T, Part + 1>())
                    if (stack_.size() != depth) return put_off<T, Part + 1>(depth, &object, 1);
            }
            visit_parts<T, Part + 1>(object);
        }
    }

    template <class T, std::size_t Part>
    static consteval bool has_references_from() {
        if constexpr (Part >= Parts<T>::kCount)
            return false;
        else
            return kHasReferences<PartType<T, Part>> || has_references_from<T, Part + 1>();
    }

    template <class Object>
    void visit(Object& constant) {
        using T = std::remove_const_t<Object>;
        T& object = const_cast<T&>(constant);  // the sender's side only reads
        if constexpr (kForm<T> == Form::product) {
            visit_parts<T, 0>(object);
        } else if constexpr (kForm<T> == Form::array) {
            visit_array(object);
        } else if constexpr (kForm<T> == Form::optional) {
            if (side_.engaged(object)) visit(*object);
        } else {
            visit_objects(side_.follow(object));
        }
    }

    template <class T>
    void visit_array(T& array) {
        using E = Held<T>;
        auto* first = reinterpret_cast<E*>(&array);
        if constexpr (kShallow<E>)
            for (std::size_t i = 0; i < detail::ArrayTraits<T>::kCount; ++i) visit(first[i]);
        else if constexpr (detail::ArrayTraits<T>::kCount > 0)
            step<E, 0>(*this, reinterpret_cast<std::byte*>(first), detail::ArrayTraits<T>::kCount);
    }

    Side& side_;
    Stack& stack_;
};

}  // namespace verbatim::objects

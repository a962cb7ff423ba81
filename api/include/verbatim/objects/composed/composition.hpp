// A composition is a root and its objects, made in one piece of memory. It is a composed message
// without a way to go. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <verbatim/objects/composed/compose_arena.hpp>
#include <verbatim/objects/composed/composed_check.hpp>
#include <verbatim/objects/composed/composed_makes.hpp>
#include <verbatim/objects/composed/composed_scan.hpp>
#include <verbatim/objects/composed/seat.hpp>

namespace verbatim::objects {

template <class T>
class Composition {
  public:
    // As ComposeArena.
    explicit Composition(std::uint64_t capacity, std::uint64_t base = 0)
        : arena_(std::make_unique<ComposeArena>(capacity, base)), root_(make<T>()) {}

    T& root() const noexcept { return *root_; }
    void set_root(T& root) noexcept { root_ = &root; }
    std::pmr::memory_resource* resource() const noexcept { return arena_.get(); }

    template <class U, class... A>
    U* make(A&&... arguments) {
        void* const memory = arena_->allocate(sizeof(U), alignof(U));
        U* made = nullptr;
        if constexpr (std::uses_allocator_v<U, std::pmr::polymorphic_allocator<>>)
            made = std::uninitialized_construct_using_allocator(
                static_cast<U*>(memory), std::pmr::polymorphic_allocator<>(resource()),
                std::forward<A>(arguments)...);
        else if constexpr (std::is_constructible_v<U, A...>)
            made = ::new (memory) U(std::forward<A>(arguments)...);
        else
            made = ::new (memory) U{std::forward<A>(arguments)...};
        seat(*made, resource());
        if (arena_->is_whole()) makes_.template add<U>(arena_->offset_of(made));
        return made;
    }

    // The bytes to be sent, and how many objects; none if some of the graph lies outside.
    std::optional<ComposedBytes> finish(ComposedTables& tables) const {
        const ComposedMemory memory = arena_->finish(root_);
        if constexpr (kCanBeScanned<T>) {
            ComposedScan<T> scan(memory, makes_, resource());
            if (arena_->is_whole() && scan.run(*root_))
                return ComposedBytes{memory, scan.objects()};
        }
        ComposedCheck<T> check(tables, arena_->is_whole() ? resource() : nullptr);
        if (!check.run(memory, *root_)) return std::nullopt;
        return ComposedBytes{memory, check.objects()};
    }

  private:
    std::unique_ptr<ComposeArena> arena_;
    ComposedMakes<T> makes_;
    T* root_;
};

}  // namespace verbatim::objects

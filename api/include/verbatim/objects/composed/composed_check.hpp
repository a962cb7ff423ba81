// The composed check is the sender's walk over a message that was composed: do all references lead
// to objects of the message? Nothing is changed. A message that fails is sent the ordinary way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <type_traits>

#include <verbatim/objects/composed/composed_walk.hpp>
#include <verbatim/objects/types/text.hpp>

namespace verbatim::objects {

class ComposedChecking {
  protected:
    template <class E, class Walk>
    [[gnu::always_inline]] void look_at(Walk& walk, const E* first, std::uint64_t count) {
        if constexpr (requires { TraitOf<E>::pack_many(walk, first, count, Slot{}); })
            return TraitOf<E>::pack_many(walk, first, count, Slot{});
        else
            for (std::uint64_t i = 0; i < count && is_good_; ++i)
                TraitOf<E>::pack(walk, first[i], Slot{});
    }

    bool is_good_ = true;
    Column<ComposedCheckFrame> stack_;
};

template <class Root>
class ComposedCheck final : public ComposedChecking,
                            public ComposedWalk<ComposedCheck<Root>, Root> {
  public:
    using Base = ComposedWalk<ComposedCheck<Root>, Root>;
    using typename Base::Types;
    using Frame = ComposedCheckFrame;
    using Walk = ComposedChecking;

    // `resource`: of the message, if all of its memory lies in it; or null.
    ComposedCheck(ComposedTables& tables, const std::pmr::memory_resource* resource)
        : Base(tables), resource_(resource) {}
    // True: the message holds all of the graph.
    bool run(const ComposedMemory& memory, const Root& root) {
        Base::begin(memory);
        owned(&root, 1);
        while (is_good_) {
            while (is_good_ && !stack_.empty()) {
                const ComposedCheckFrame& frame = stack_.back();  // as in Packing::run_frames()
                stack_.pop_back();
                if (stack_.size() > 1) __builtin_prefetch((stack_.end() - 2)->source);
                frame.step(*this, frame);
            }
            if (!is_good_ || !Base::drain()) break;
        }
        return is_good_;
    }
    std::uint64_t objects() const noexcept { return Base::objects_; }

    // ---- called by the pack() of traits ----
    template <class E>
    [[gnu::always_inline]] void owned(const E* first, std::uint64_t count) {
        if (count == 0) return;
        if (const std::uint64_t at = place_of(first, count); at != Base::kOutside)
            Base::template follow<E>(at, count);
    }
    template <class E>
    [[gnu::always_inline]] void pointer(const E* target, Slot) {
        if (target == nullptr) return;
        const std::uint64_t at = place_of(target, 1);
        if (at == Base::kOutside) return;
        if constexpr (Types::template is_inner<E>())
            Base::template follow_inner<E>(at, 1);
        else
            Base::template follow<E>(at, 1);
    }
    template <class E>
    void view(const E* first, std::uint64_t count, Slot) {
        if (count == 0) return;
        if (const std::uint64_t at = place_of(first, count); at != Base::kOutside)
            Base::template follow_inner<E>(at, count);
    }
    // Texts lie outside, most often, and have no length.
    template <class C>
    void text(const C* first, Slot) {
        if (first != nullptr) refuse("a text");
    }
    template <class P>
    void pointers(const P* first, std::uint64_t count, Slot slot) {
        for (std::uint64_t i = 0; i < count; ++i)
            pointer<std::remove_cv_t<std::remove_pointer_t<P>>>(first[i], slot);
    }
    // Memory of a container that holds no objects.
    void room(const void* first, std::uint64_t bytes) {
        const std::uint64_t at = place_of(static_cast<const std::byte*>(first), bytes);
        if (at != Base::kOutside && !Base::map_.claim(at, bytes)) refuse("it is taken");
    }
    // Objects in such memory.
    template <class E>
    void inside(const E* first, std::uint64_t count) {
        const std::uint64_t at = place_of(first, count);
        if (at == Base::kOutside) return;
        Base::template note<E>(at, count);
        push<E>(at, count);
    }
    // Texts with the message's resource lie in it, each in a place of its own. They need no cells
    // unless a reference of the graph may lead into one.
    template <class E>
    [[gnu::always_inline]] bool knows_array(const auto& container) {
        constexpr bool kIsText = kIsCharacter<E> && requires { container.c_str(); };
        if constexpr (!kIsText || kMayBeLedInto<E>) return false;
        if (resource_ == nullptr || container.get_allocator().resource() != resource_) return false;
        ++Base::objects_;
        return true;
    }
    template <class E>
    [[gnu::always_inline]] void fetch_owned(const void* first, std::uint64_t index) const noexcept {
        if constexpr (!kIsCharacter<E>) Base::template fetch_owned<E>(first, index);
    }
    void amend(Slot, std::span<const std::byte>) {}
    void put_off(const ComposedCheckFrame& frame) { stack_.push_back(frame); }
    static constexpr std::uint64_t image_bytes() noexcept { return 0; }

  private:
    friend Base;

    template <class E>
    [[gnu::always_inline]] std::uint64_t place_of(const E* first, std::uint64_t count) {
        const std::uint64_t at =
            Base::template locate<E>(reinterpret_cast<std::uint64_t>(first), count);
        if (at == Base::kOutside) refuse("an object lies outside");
        return at;
    }
    void refuse(const char*) noexcept { is_good_ = false; }
    template <class E>
    [[gnu::always_inline]] void push(std::uint64_t offset, std::uint64_t count) {
        if constexpr (kHasReferences<E>)
            stack_.push_back(
                {count == 1 ? &step_one<E> : &step<E>, Base::memory_.bytes + offset, 0, count});
    }
    template <class E>
    static void step_one(ComposedChecking& walk, const ComposedCheckFrame& frame) {
        fetch_object<E>(frame.source);
        TraitOf<E>::pack(static_cast<ComposedCheck&>(walk),
                         *reinterpret_cast<const E*>(frame.source), Slot{});
    }
    // The frame is gone with the first that is put off.
    template <class E>
    static void step(ComposedChecking& walk, const ComposedCheckFrame& frame) {
        auto& check = static_cast<ComposedCheck&>(walk);
        const std::uint64_t count = frame.count;
        check.look_at(check, reinterpret_cast<const E*>(frame.source), count);
    }

    // By what has no larger alignment: the same characters, others, bytes.
    template <class E>
    struct FitsInto {
        template <class U>
        using Of = std::bool_constant<alignof(U) <= alignof(E)>;
    };
    template <class E>
    static constexpr bool kMayBeLedInto =
        boost::mp11::mp_any_of<typename Types::Shared, FitsInto<E>::template Of>::value;

    const std::pmr::memory_resource* const resource_;
};

}  // namespace verbatim::objects

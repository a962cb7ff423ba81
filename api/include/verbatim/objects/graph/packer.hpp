// The packer is the sender's walk over graphs with roots of one type. Every object is met once: it
// is copied behind the last one, and its place is noted in the claims. A reference to a new object
// needs no word more: the receiver meets the references in the same order. To an object that was
// met before, its place is written into the copy, or told in a record if the copy has left.
//
// References to what may lie inside other objects wait until the rest is done, so that they find
// the whole (docs/graphs.md, "Order of the walk"). A stack of frames holds what is left: data can
// make it long, never the call chain deep.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <verbatim/objects/graph/class_references.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/graph/inner_references.hpp>
#include <verbatim/objects/graph/large_arrays.hpp>
#include <verbatim/objects/graph/open_closure.hpp>
#include <verbatim/objects/graph/open_inner_references.hpp>
#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/graph/pointer_fans.hpp>
#include <verbatim/objects/graph/pointer_runs.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// The keys of the types that are claimed, by number.
template <class Root>
inline constexpr auto kClaimedTypes = []<class... T>(List<T...>) {
    return std::array<const TypeKey*, sizeof...(T)>{&kTypeKey<T>...};
}(typename Closure<Root>::Claimed{});
template <class Root>
std::span<const TypeKey* const> type_keys_of() noexcept {
    if constexpr (ClosureOf<Root>::kIsOpen)
        return open_type_keys();
    else
        return kClaimedTypes<Root>;
}

// Of graphs that are not open, and of OpenGraph; open_walks.hpp has the others.
template <class Root>
class Packer : public Packing {
  public:
    using Types = ClosureOf<Root>;
    using Frame = PackFrame;
    using Walk = Packing;

    // `root` must live, unchanged, until everything has left.
    Packer(PackTables& tables, const Root& root, PackOptions options)
        : Packing(tables, &Packer::run_all, type_keys_of<Root>(), Types::kInnerTypes,
                  PackOptions{options.acyclic, options.most_bytes, options.flush_bytes,
                              options.hold_bytes, Types::kAlignment, Types::kMayHaveCycles}),
          root_(root) {
        take_in_root();
    }

    // ---- called by the pack() of traits ----
    // `count` objects that are the holder's own, which has their number in its copy.
    template <class E>
    [[gnu::always_inline]] void owned(const E* first, std::uint64_t count) {
        if (count == 0) return;
        if constexpr (Types::template claims<E>()) {
            ++references_;
            if (options_.acyclic)
                take_in(first, count);
            else if (count == 1)
                follow_one(first, {});
            else
                follow(first, count, {});
        } else {
            take_in(first, count);
        }
    }
    // `count` objects that lie inside of their holder, where no other reference leads to them. The
    // receiver's owned() has them outside of it.
    template <class E>
    void owned_inside(const E* first, std::uint64_t count) {
        if (count == 0) return;
        if constexpr (Types::template claims<E>()) ++references_;
        take_in<E, false>(first, count);
    }
    // A raw or shared pointer; `word` is the field of 8 bytes that has its address.
    template <class E>
    [[gnu::always_inline]] void pointer(const E* target, Slot word) {
        if (target == nullptr) return;
        if constexpr (Targets::kChecksReadable)
            tables_.targets.check_readable({address_of(target), 1, number<E>(), references_});
        ++references_;
        if constexpr (Types::kIsOpen && kIsDynamic<E>) {
            ClassReferences<Packer>::follow(*this, target, word);
        } else {
            if (options_.acyclic) return (void)take_in(target, 1);
            if constexpr (Types::template is_inner<E>())
                inner_.follow(*this, target, word);
            else
                follow_one(target, word);
        }
    }
    // A view of `count` objects.
    template <class E>
    void view(const E* first, std::uint64_t count, Slot word) {
        if (count == 0) return;
        if constexpr (Targets::kChecksReadable)
            tables_.targets.check_readable({address_of(first), count, number<E>(), references_});
        if constexpr (kIsDynamic<E>) check_exact_class(first, type_info<E>());
        ++references_;
        if (options_.acyclic) return (void)take_in(first, count);
        inner_.follow(*this, first, WaitingReference{nullptr, word.offset, count, false, 0});
    }
    // A pointer to characters that end with a zero: the receiver is told how many.
    template <class C>
    void text(const C* first, Slot word) {
        if (first == nullptr) return;
        ++references_;
        const std::uint64_t count = std::char_traits<C>::length(first) + 1;
        if (options_.acyclic) {
            const Extent wanted{address_of(first), count, number<C>(), references_ - 1};
            return take_in_container(wanted, wanted);
        }
        inner_.follow(*this, first, WaitingReference{nullptr, word.offset, count, true, 0});
    }
    // Pointers side by side, whose targets are fetched ahead.
    template <class P>
    void pointers(const P* first, std::uint64_t count, Slot words) {
        using E = std::remove_cv_t<std::remove_pointer_t<P>>;
        using Runs = PointerRuns<Packer>;
        const std::uint64_t behind = count + std::exchange(behind_, 0);
        if constexpr (!Types::template is_inner<E>() && !kIsDynamic<E>)
            if (!options_.acyclic && !Targets::kChecksReadable)
                if (Runs::take_in(*this, first, count)) return;
        for (std::uint64_t i = 0; i < std::min(count, Runs::kAhead); ++i)
            Runs::fetch(*this, first[i]);
        for (std::uint64_t i = 0; i < count; ++i) {
            if (i + Runs::kAhead < behind) Runs::fetch(*this, first[i + Runs::kAhead]);
            pointer<E>(first[i], words.at(i * sizeof(P)));
        }
    }
    // Room at the receiver that it fills itself.
    void reserve(std::uint64_t bytes, std::uint64_t alignment) {
        std::uint64_t offset = 0;
        if (bytes > kSegmentBytes)
            tables_.staging.place_large(nullptr, bytes);
        else if (bytes > 0)
            tables_.staging.place(bytes, alignment, offset);
    }
    // The copy must differ from the object.
    void amend(Slot at, std::span<const std::byte> bytes) {
        if (std::byte* const copy = tables_.staging.staged(at.offset))
            std::memcpy(copy, bytes.data(), bytes.size());
        else
            tables_.staging.patch(at.offset, bytes);
    }
    // Puts off the rest of an object's parts: `step` is called with the frame when what was met
    // since is done.
    void put_off(const PackFrame& frame) { tables_.stack.push_back(frame); }

  private:
    friend struct ClassReferences<Packer>;
    friend class InnerReferences<Packer>;
    friend class OpenInnerReferences<Packer>;
    friend struct PointerRuns<Packer>;
    friend struct PointerFans<Packer>;
    friend struct LargeArrays<Packer>;
    template <class E>
    friend struct detail::OpenWalks;
    using Met = Targets::Met;

    template <class E>
    static constexpr std::uint64_t kAlignment = Types::template claims<E>()
                                                    ? std::max(alignof(E),
                                                               std::size_t{kImageGranule})
                                                    : alignof(E);

    void take_in_root() {
        ++references_;
        if constexpr (Types::kIsOpen)
            root_.type.take_in(*this, root_.object);
        else if constexpr (Types::template claims<Root>())
            follow_one(&root_, {});
        else
            take_in(&root_, 1);
    }

    // Copies new objects into the image. Those that refer to others are walked later. `IsClaimed`:
    // other references may lead to them.
    template <class E, bool IsClaimed = Types::template claims<E>()>
    [[gnu::always_inline]] std::uint64_t take_in(const E* first, std::uint64_t count) {
        std::uint64_t offset = 0;
        const std::uint64_t bytes = count * sizeof(E);
        if (bytes <= kSegmentBytes) {
            std::byte* const copy = tables_.staging.place(bytes, kAlignment<E>, offset);
            if (count == 1)
                std::memcpy(copy, static_cast<const void*>(first), sizeof(E));
            else
                std::memcpy(copy, static_cast<const void*>(first), bytes);
            push<E>(first, offset, count);
        } else {
            offset = LargeArrays<Packer>::take_in(*this, first, count);
        }
        ++objects_;
        if constexpr (IsClaimed) note<E>(first, count, offset);
        return offset;
    }
    template <class E>
    [[gnu::always_inline]] void push(const E* first, std::uint64_t offset, std::uint64_t count) {
        if constexpr (kHasReferences<E>) {
            if (count == 1 && objects::leads_nowhere(*first)) return;
            tables_.stack.push_back({count == 1 ? &step_one<E> : &step<E>,
                                     reinterpret_cast<const std::byte*>(first), offset, count});
        }
    }
    template <class E>
    void note(const E* first, std::uint64_t count, std::uint64_t offset) {
        if (options_.acyclic) return;
        tables_.targets.placement.place(offset, count, number<E>());
        tables_.targets.claims.claim(reinterpret_cast<std::uint64_t>(first), count * sizeof(E),
                                     offset, count == 1 ? kClaimTag<Types, E> : 0);
    }

    // A reference to one object, which never lies inside others.
    template <class E>
    [[gnu::always_inline]] void follow_one(const E* target, Slot word) {
        std::uint64_t offset = 0;
        switch (follow_quickly(target, offset)) {
            case Quick::fresh:
                return;
            case Quick::seen:
                return refer(word, references_ - 1, offset);
            case Quick::unknown:
                return follow(target, 1, word);
        }
    }
    // What one load tells: the object was taken in, or met before, and its place.
    enum class Quick : std::uint8_t { fresh, seen, unknown };
    template <class E>
    [[gnu::always_inline]] Quick follow_quickly(const E* target, std::uint64_t& offset) {
        constexpr std::uint64_t granules = kGranules<E>;
        const auto address = reinterpret_cast<std::uint64_t>(target);
        const std::uint64_t granule = Claims::granule(address);
        if constexpr (sizeof(E) <= Claims::kPageBytes) {
            Claims::Word* const words = tables_.targets.claims.words_or_make(address);
            if (words != nullptr && address % kImageGranule == 0 &&
                granule + granules <= Claims::kPageGranules) {
                const Claims::Word known = words[granule];
                if (known == Claims::kFree) {
                    if (are_free<granules>(words + granule) && !tables_.targets.has_containers()) {
                        offset = take_in_claimed(target, words + granule);
                        return Quick::fresh;
                    }
                } else if (tables_.targets.starts<kClaimTag<Types, E>>(known, number<E>(),
                                                                       offset)) {
                    return Quick::seen;
                }
            }
        }
        return Quick::unknown;
    }
    template <class E>
    [[gnu::always_inline]] std::uint64_t take_in_claimed(const E* target, Claims::Word* words) {
        std::uint64_t offset = 0;
        std::byte* const copy = tables_.staging.place(sizeof(E), kAlignment<E>, offset);
        std::memcpy(copy, static_cast<const void*>(target), sizeof(E));
        const Claims::Word first = ClaimWords::plain(offset);
        words[0] = ClaimWords::tagged(first, kClaimTag<Types, E>);
        for (std::uint64_t i = 1; i < kGranules<E>; ++i)
            words[i] = first + static_cast<Claims::Word>(i);
        tables_.targets.placement.place_one<E>(offset, number<E>());
        ++objects_;
        push<E>(target, offset, 1);
        return offset;
    }

    // Any reference; the reference was counted.
    template <class E>
    [[gnu::noinline]] void follow(const E* first, std::uint64_t count, Slot word) {
        Targets& targets = tables_.targets;
        const Extent wanted{address_of(first), count, number<E>(), references_ - 1};
        const Targets::Meeting meeting = targets.meet(wanted);
        if (meeting.met == Met::seen) return refer(word, wanted.reference, meeting.offset);
        if (meeting.met == Met::covers) {
            // This walk is void, and goes on to learn more.
            if (targets.take_news()) push<E>(first, Packing::kNowhere, count);
            return;
        }
        const Extent* const container =
            targets.has_containers() ? targets.container_of(wanted.address) : nullptr;
        if (container != nullptr && !container->covers_same(wanted))
            return take_in_container(*container, wanted);
        take_in(first, count);
    }

    // The reference leads into objects that are met as a whole now, `delta` bytes behind `wanted`.
    // The receiver is told their number. The container is a copy: a meeting may find a wider one,
    // which takes its place in the table.
    void take_in_container(const Extent container, const Extent& wanted, std::uint64_t delta = 0) {
        std::uint64_t offset = take_in_extent(container);
        if (!container.covers_same(wanted)) offset = tables_.targets.meet(wanted).offset;
        std::uint64_t type = container.number;
        if constexpr (Types::kIsOpen)
            type = tables_.sent_classes().record_type(container.number, root_.type.types());
        tables_.arrays.push_back({wanted.reference, offset + delta, container.count, type});
    }
    std::uint64_t take_in_extent(const Extent& extent) {
        if constexpr (Types::kIsOpen) {
            return open_type(extent.number)
                .take_in(*this, reinterpret_cast<const std::byte*>(extent.address), extent.count);
        } else {
            using Take = std::uint64_t (*)(Packer&, const Extent&);
            static constexpr auto kTake = []<class... T>(List<T...>) {
                return std::array<Take, sizeof...(T)>{[](Packer& packer, const Extent& e) {
                    return packer.take_in(reinterpret_cast<const T*>(e.address), e.count);
                }...};
            }(typename Types::Claimed{});
            return kTake[extent.number - 1u](*this, extent);
        }
    }

    template <class E>
    static constexpr std::uint16_t number() noexcept {
        return Types::template number_of<E>();
    }

    // ---- the walk ----
    // And then those on top of the stack, as long as they are of the same type: for less than a
    // call each.
    template <class E>
    static void step_one(Packing& packing, const PackFrame& frame) {
        auto& packer = static_cast<Packer&>(packing);
        const std::byte* source = frame.source;
        Slot slot{frame.offset};
        while (true) {
            const E& object = *reinterpret_cast<const E*>(source);
            if (!PointerFans<Packer>::pack(packer, object, slot)) {
                PointerRuns<Packer>::fetch_targets(packer, object);
                TraitOf<E>::pack(packer, object, slot);
            }
            Column<PackFrame>& stack = packer.tables_.stack;
            if (stack.empty() || stack.back().step != &step_one<E> || !packer.may_go_on()) return;
            source = stack.back().source;
            slot.offset = stack.back().offset;
            stack.pop_back();
            PointerFans<Packer>::template fetch_after_next<E>(packer);
            ++packer.steps_;
        }
    }
    // Walks `count` objects, the first of which was copied to the frame's offset, or is now.
    template <class E, bool InExcerpts = false>
    static void step(Packing& packing, const PackFrame& frame) {
        auto& packer = static_cast<Packer&>(packing);
        const auto* const first = reinterpret_cast<const E*>(frame.source);
        const Slot slot{frame.offset};
        const std::uint64_t now = std::min(frame.count, kStepObjects);
        const std::uint64_t left = frame.count - now;
        if constexpr (InExcerpts) LargeArrays<Packer>::excerpt(packer, frame, now * sizeof(E));
        if (left > 0)
            packer.put_off({&step<E, InExcerpts>, frame.source + now * sizeof(E),
                            frame.offset + now * sizeof(E), left});
        packer.behind_ = left;
        if constexpr (requires { TraitOf<E>::pack_many(packer, first, now, slot); })
            TraitOf<E>::pack_many(packer, first, now, slot);
        else
            for (std::uint64_t i = 0; i < now; ++i)
                if (const Slot at = slot.at(i * sizeof(E));
                    !PointerFans<Packer>::pack(packer, first[i], at))
                    TraitOf<E>::pack(packer, first[i], at);
    }

    static bool run_all(Packing& packing) { return static_cast<Packer&>(packing).walk(); }
    bool walk() {
        while (!done_) {
            if (wants_flush() && !must_begin_search()) {
                check_size();
                if (!tables_.targets.is_void()) return false;
                set_announced();
            }
            if (!tables_.stack.empty())
                run_frames();
            else if (!inner_.drain_next(*this))
                finish();
            if (cycles_.found() != nullptr)
                cycles_.refuse(steps_of_types(),
                               Types::kIsOpen ? "an object of a graph with polymorphic classes"
                                              : "elements of a container");
        }
        return true;
    }
    static std::span<const CycleSearch::StepsOfType> steps_of_types() noexcept {
        if constexpr (Types::kIsOpen || !Types::kMayHaveCycles) {
            return {};
        } else {
            constexpr auto steps_of = []<class E>(List<E>) {
                CycleSearch::StepsOfType steps{&type_info<E>};
                if constexpr (kHasReferences<E>) steps.one = &step_one<E>, steps.many = &step<E>;
                if constexpr (LargeArrays<Packer>::template kInExcerpts<E>)
                    steps.in_excerpts = &step<E, true>;
                return steps;
            };
            static constexpr auto kSteps = [=]<class... T>(List<T...>) {
                return std::array{steps_of(List<T>{})...};
            }(typename Types::Claimed{});
            return kSteps;
        }
    }
    void finish() {
        if (!tables_.targets.is_void()) {
            check_size();
            done_ = true;
            return;
        }
        restart();
        inner_ = {};
        take_in_root();
    }
    std::conditional_t<Types::kIsOpen, Root, const Root&> root_;
    std::conditional_t<Types::kIsOpen, OpenInnerReferences<Packer>, InnerReferences<Packer>> inner_;
    std::uint64_t behind_ = 0;  // pointers behind those of a step, which may be read
};

}  // namespace verbatim::objects

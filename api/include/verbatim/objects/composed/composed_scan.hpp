// The composed scan looks at the objects that a message has made one by one, and at what they own.
// It goes by their addresses and follows no pointer: each must lead to the start of such an object
// of its type, or of an element of an array. Where one does not, or objects may lie elsewhere, the
// scan does not know, and the walk of composed_check.hpp tells. Objects that nothing leads to any
// more are looked at as well: their memory is still the message's. Nothing is changed. Threads: one
// at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <type_traits>

#include <verbatim/objects/composed/composed_arrays.hpp>
#include <verbatim/objects/composed/composed_check.hpp>
#include <verbatim/objects/composed/composed_lanes.hpp>
#include <verbatim/objects/composed/composed_makes.hpp>
#include <verbatim/objects/traits/marked.hpp>

namespace verbatim::objects {

template <class Root>
class ComposedScan final : public ComposedChecking {
  public:
    using Types = Closure<Root>;
    using Frame = ComposedCheckFrame;
    using Walk = ComposedChecking;
    using Makes = ComposedMakes<Root>;
    static constexpr bool kByAddress = true;

    // `resource`: of the message, all of whose memory lies in it.
    ComposedScan(const ComposedMemory& memory, const Makes& makes,
                 const std::pmr::memory_resource* resource) noexcept
        : memory_(memory),
          cells_(makes.cells()),
          makes_(makes),
          resource_(resource),
          objects_(makes.objects()) {
        [&]<class... T>(List<T...>) {
            ((starts_.template of<T>() = makes.template starts<T>()), ...);
        }(typename Types::Claimed{});
    }

    // True: the message holds all of the graph.
    bool run(const Root& root) {
        is_good_ = is_made(&root);
        if (is_good_) scan_root(root);
        [&]<class... T>(List<T...>) { (scan_runs<T>(&root), ...); }(typename Types::Types{});
        return is_good_ && arrays_.hold_all();
    }
    std::uint64_t objects() const noexcept { return objects_; }

    // ---- called by the pack() of traits ----
    template <class E>
    [[gnu::always_inline]] void owned(const E* first, std::uint64_t count) {
        if (count == 0 || (count == 1 && is_made(first))) return;
        check_room(first, count);
        inside(first, count);
    }
    template <class E>
    [[gnu::always_inline]] void pointer(const E* target, Slot) {
        const ComposedReference reference{distance_of(target), 1};
        if (target == nullptr || arrays_.template last_holds<E>(reference) ||
            starts_.template of<E>().has(reference.offset) || is_made(target))
            return;
        if (!arrays_.template must_hold<E>(reference)) is_good_ = false;
    }
    template <class E>
    void view(const E* first, std::uint64_t count, Slot) {
        if (count == 0 || (count == 1 && is_made(first))) return;
        if (!arrays_.template must_hold<E>({distance_of(first), count})) is_good_ = false;
    }
    template <class C>
    void text(const C* first, Slot) {
        if (first != nullptr) is_good_ = false;
    }
    template <class P>
    void pointers(const P* first, std::uint64_t count, Slot slot) {
        for (std::uint64_t i = 0; i < count; ++i)
            pointer<std::remove_cv_t<std::remove_pointer_t<P>>>(first[i], slot);
    }
    void room(const void* first, std::uint64_t bytes) {
        check_room(static_cast<const std::byte*>(first), bytes);
    }
    template <class E>
    void inside(const E* first, std::uint64_t count) {
        ++objects_;
        if (is_root_) arrays_.template add<E>({distance_of(first), count});
        push(first, count);
    }
    // Containers with the message's resource have all nodes in the message.
    template <class Node>
    bool knows_nodes(const auto& container, std::uint64_t count) {
        if (count == 0) return true;
        is_good_ = is_good_ && container.get_allocator().resource() == resource_;
        if (is_good_ && kHasReferences<Node>) return false;
        objects_ += count;
        return true;
    }
    // The same of an array of what refers to nothing, and what no pointer can lead into.
    template <class E>
    [[gnu::always_inline]] bool knows_array(const auto& container) {
        if constexpr (kHasReferences<E> || Types::template is_inner<E>()) return false;
        if (container.get_allocator().resource() != resource_) return false;
        ++objects_;
        return true;
    }
    void amend(Slot, std::span<const std::byte>) {}
    void put_off(const ComposedCheckFrame& frame) { stack_.push_back(frame); }
    static constexpr std::uint64_t image_bytes() noexcept { return 0; }

  private:
    template <class E>
    [[gnu::always_inline]] bool is_made(const E* object) const noexcept {
        if constexpr (Makes::template kKnows<E>) {
            const std::uint64_t granule = ComposedCells::granule_at(distance_of(object));
            return granule < cells_.size() && cells_[granule] == Makes::template kNumber<E>;
        } else {
            return false;
        }
    }
    std::uint64_t distance_of(const void* address) const noexcept {
        return reinterpret_cast<std::uint64_t>(address) - memory_.address;
    }
    // The receiver takes nothing that starts within a granule.
    template <class E>
    [[gnu::always_inline]] void check_room(const E* first, std::uint64_t count) noexcept {
        const std::uint64_t distance = distance_of(first);
        if (distance >= memory_.used || distance % ComposedCells::kGranule != 0 ||
            count > (memory_.used - distance) / sizeof(E))
            is_good_ = false;
    }
    template <class E>
    [[gnu::always_inline]] void push(const E* first, std::uint64_t count) {
        if constexpr (kHasReferences<E>)
            if (is_good_)
                stack_.push_back({&step<E>, reinterpret_cast<const std::byte*>(first), 0, count});
    }
    // What the root owns arrives for sure: so pointers may lead into its arrays. Those of others
    // may be lost, and do not count.
    void scan_root(const Root& root) {
        if constexpr (kHasReferences<Root>) {
            is_root_ = true;
            TraitOf<Root>::pack(*this, root, Slot{});
            scan_owned();
            is_root_ = false;
        }
    }
    template <class E>
    void scan_runs(const void* root) {
        if constexpr (kHasReferences<E>)
            for (const ComposedRun& run : makes_.template runs<E>()) scan_run<E>(run, root);
    }
    template <class E>
    void scan_run(const ComposedRun& run, const void* root) {
        const std::byte* const first = memory_.bytes + run.offset;
        for (std::uint64_t i = 0; i < run.count && is_good_; ++i) {
            const std::byte* at = first + i * run.stride;
            if constexpr (ComposedAllStarts<Types>::template takes<E>()) {
                i += starts_.template count_held<E>(at, run.stride, run.count - i, memory_.address);
                if (i == run.count) break;
                at = first + i * run.stride;
            }
            if (at != root || !std::is_same_v<E, Root>) scan_one(*reinterpret_cast<const E*>(at));
        }
    }
    template <class E>
    void scan_one(const E& object) {
        TraitOf<E>::pack(*this, object, Slot{});
        scan_owned();
    }
    void scan_owned() {
        while (is_good_ && !stack_.empty()) {
            const ComposedCheckFrame& frame = stack_.back();  // as in Packing::run_frames()
            stack_.pop_back();
            frame.step(*this, frame);
        }
    }
    // The frame is gone with the first that is put off.
    template <class E>
    static void step(ComposedChecking& walk, const ComposedCheckFrame& frame) {
        auto& scan = static_cast<ComposedScan&>(walk);
        const auto* const first = reinterpret_cast<const E*>(frame.source);
        const std::uint64_t count = frame.count;
        if constexpr (ComposedLanes<E, Types>::takes()) {
            const ComposedLanes<E, Types> lanes(scan.memory_.address, 0, [&]<class F>() {
                return scan.arrays_.template last<F>();
            });
            lanes.walk(
                first, count, [](const E*) {},
                [&](const E* others, std::uint64_t n) { scan.look_at(scan, others, n); });
        } else {
            scan.look_at(scan, first, count);
        }
    }

    const ComposedMemory memory_;
    const std::span<const ComposedCell> cells_;
    const Makes& makes_;
    const std::pmr::memory_resource* const resource_;
    std::uint64_t objects_;
    bool is_root_ = false;
    ComposedAllStarts<Types> starts_;  // most pointers lead to these
    ComposedArrays<Types> arrays_;
};

namespace detail {

template <class T>
struct IsUniquePointer : std::false_type {};
template <class T, class D>
struct IsUniquePointer<std::unique_ptr<T, D>> : std::true_type {};
template <class T>
struct IsUniquePointer<CountedMember<T>> : std::true_type {};

// Owners whose memory is looked at before it is known to be the message's, and is gone with an
// object that the program has ended.
template <class T>
struct OwnsElsewhere {
    static constexpr bool value = [] {
        if constexpr (!HidesAddresses<T>::kOwns || IsUniquePointer<T>::value)
            return false;
        else if constexpr (requires { TraitOf<T>::kPolymorphic; })
            return !TraitOf<T>::kPolymorphic;
        else
            return true;
    }();
};

}  // namespace detail

template <class Root>
inline constexpr bool kCanBeScanned =
    !boost::mp11::mp_any_of<typename Closure<Root>::Types, detail::OwnsElsewhere>::value;

}  // namespace verbatim::objects

// The mender is the receiver's walk over images with roots of one type. It meets the references in
// the sender's order. One that its bytes or a record say nothing of leads to the next object of the
// image (docs/graphs.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/objects/graph/class_mending.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/graph/mending.hpp>
#include <verbatim/objects/graph/open_closure.hpp>
#include <verbatim/objects/graph/packer.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

// Of graphs that are not open, and of OpenGraph; open_walks.hpp has the others.
template <class Root>
class Mender : public Mending {
  public:
    using Types = ClosureOf<Root>;
    using Frame = MendFrame;
    using Walk = Mending;

    // Of an open graph the root is told. Throws Error(unsupported): a prototype cannot be made.
    Mender(MendTables& tables, bool acyclic, const OpenRoot& root = {})
        : Mending(tables, &Mender::run_all, type_keys_of<Root>(), Types::kInnerTypes, acyclic),
          root_type_(root) {
        if constexpr (!Types::kIsOpen) detail::prepare_tables<typename Types::Types>();
    }

    // ---- called by the mend() of traits ----
    // The objects that a container owns: `count` of them, whose memory it returns.
    template <class E>
    [[gnu::always_inline]] E* owned(std::uint64_t count) {
        if constexpr (Types::template claims<E>()) {
            const std::uint64_t reference = references_++;
            if (reference == tables_.records.next()) return by_record<E>(count, true);
        }
        return place<E>(count);
    }
    // A raw or shared pointer: `field` holds 8 bytes of the peer, and then an address.
    template <class E>
    [[gnu::always_inline]] void pointer(void* field) {
        std::uint64_t raw = 0;
        std::memcpy(&raw, field, sizeof raw);
        if (raw == 0) return;
        if constexpr (Types::kIsOpen && kIsDynamic<E>)
            ClassMending<Mender>::template follow<E>(*this, static_cast<std::byte*>(field), raw);
        else
            follow<E>(static_cast<std::byte*>(field), raw, 1);
    }
    // A view of `count` objects.
    template <class E>
    void view(void* field, std::uint64_t count) {
        std::uint64_t raw = 0;
        std::memcpy(&raw, field, sizeof raw);
        if (count == 0) return store(static_cast<std::byte*>(field), nullptr);
        if (raw == 0) corrupt("a view of nothing has a length");
        if (count == kUntold) corrupt("more objects than the graph has bytes for");
        follow<E>(static_cast<std::byte*>(field), raw, count);
    }
    // A pointer to characters that end with a zero.
    template <class C>
    void text(void* field) {
        std::uint64_t raw = 0;
        std::memcpy(&raw, field, sizeof raw);
        if (raw == 0) return;
        follow<C>(static_cast<std::byte*>(field), raw, kUntold);
    }
    template <class P>
    void pointers(P* first, std::uint64_t count) {
        using E = std::remove_cv_t<std::remove_pointer_t<P>>;
        auto* fields = reinterpret_cast<std::byte*>(first);
        std::uint64_t i = 0;
        if constexpr (!Types::template is_inner<E>() && !kIsDynamic<E> && kHasRuns<E>)
            i = mend_run<E>(fields, count);
        for (; i < count; ++i) pointer<E>(fields + i * sizeof(P));
    }
    // Room that no bytes of the sender are for.
    std::byte* reserve(std::uint64_t bytes, std::uint64_t alignment) {
        std::uint64_t offset = 0;
        return tables_.image.take(bytes, alignment, offset);
    }
    void put_off(const MendFrame& frame) { tables_.stack.push_back(frame); }
    // `is_valid` is called with the object when the graph is whole.
    template <class E>
    void validate_later(const E* object, bool (*is_valid)(const std::byte*)) {
        tables_.to_validate.push_back(
            {is_valid, reinterpret_cast<const std::byte*>(object), &kTypeKey<E>});
    }

  private:
    friend struct ClassMending<Mender>;
    template <class E>
    friend struct detail::OpenWalks;
    template <class E>
    static constexpr std::uint64_t kAlignment = Types::template claims<E>()
                                                    ? std::max(alignof(E),
                                                               std::size_t{kImageGranule})
                                                    : alignof(E);

    static void store(std::byte* field, const void* target) noexcept {
        std::memcpy(field, &target, sizeof target);
    }

    // New objects, from the cursor.
    template <class E>
    [[gnu::always_inline]] E* place(std::uint64_t count) {
        if (count != 1 && count > told_.cursor / sizeof(E))
            corrupt("more objects than the graph has bytes for");
        const std::uint64_t bytes = count * sizeof(E);
        std::uint64_t offset = 0;
        std::byte* const at = tables_.image.take(bytes, kAlignment<E>, offset);
        __builtin_prefetch(at + bytes + kPrefetchBytes);
        ++objects_;
        if constexpr (Types::template claims<E>()) {
            const std::uint16_t number = Types::template number_of<E>();
            if (count == 1)
                tables_.placement.place_one<E>(offset, number);
            else
                tables_.placement.place(offset, count, number);
        }
        mend_later<E>(at, count);
        return reinterpret_cast<E*>(at);
    }
    template <class E>
    [[gnu::always_inline]] void mend_later(std::byte* at, std::uint64_t count) {
        if constexpr (kHasReferences<E>) {
            if constexpr (kMayLeadNowhere<E>)
                if (count == 1 && objects::leads_nowhere(*reinterpret_cast<const E*>(at)))
                    return mend_leaf(*this, *reinterpret_cast<E*>(at));
            tables_.stack.push_back({count == 1 ? &step_one<E> : &step<E>, at, count, 0});
        } else if constexpr (!kPlain<E>)
            for (std::uint64_t i = 0; i < count; ++i)
                TraitOf<E>::mend(*this, *reinterpret_cast<E*>(at + i * sizeof(E)));
    }

    template <class E>
    [[gnu::always_inline]] void follow(std::byte* field, std::uint64_t raw, std::uint64_t count) {
        const std::uint64_t reference = references_++;
        if ((raw & kPlaceBit) != 0) return store(field, target<E>(raw & ~kPlaceBit, count));
        if (reference == tables_.records.next()) return store(field, by_record<E>(count));
        if constexpr (Types::template is_inner<E>())
            if (!acyclic_) {
                if constexpr (Types::kIsOpen) {
                    return ClassMending<Mender>::wait(*this, field, count,
                                                      Types::template number_of<E>());
                } else {
                    constexpr std::size_t index = Types::template inner_index_of<E>();
                    return tables_.waiting[index].push_back({field, count});
                }
            }
        store(field, place<E>(count));
    }
    // Objects that were met before, or are part of others.
    template <class E>
    [[gnu::always_inline]] std::byte* target(std::uint64_t offset, std::uint64_t count) {
        if (count == kUntold) return refer_to_text(offset, kTypeKey<E>);
        ImageCursor& image = tables_.image;
        if (count == 1 && offset < image.cursor()) {
            if constexpr (!Types::kIsOpen && Types::template is_inner<E>()) {
                const Likely& likely = likely_[Types::template inner_index_of<E>()];
                const std::uint64_t delta = offset - likely.start;
                if (delta < likely.bytes && delta % sizeof(E) == 0) return image.memory_at(offset);
            }
            if (tables_.placement.starts(offset, Types::template number_of<E>()))
                return image.memory_at(offset);
            if constexpr (!Types::kIsOpen && Types::template is_inner<E>())
                if (const auto& likely = likely_[Types::template inner_index_of<E>()];
                    tables_.placement.has(likely.part, offset))
                    return image.memory_at(offset);
        }
        const Place place = refer(offset, count, kTypeKey<E>);
        if constexpr (!Types::kIsOpen && Types::template is_inner<E>())
            likely_[Types::template inner_index_of<E>()].learn(offset, place, kTypeKey<E>,
                                                               tables_.placement);
        return image.memory_at(offset);
    }
    template <class E>
    [[gnu::noinline]] E* by_record(std::uint64_t count, bool is_owner = false) {
        std::uint64_t offset = 0;
        if (const PlaceRecord* const place = tables_.records.take_place()) {
            offset = place->offset;
            tables_.placement.prefetch(tables_.records.place_ahead());
        } else {
            const ArrayRecord array = *tables_.records.take_array();
            place_array(array);
            offset = array.offset;
        }
        // Owners use what they own at once.
        if (is_owner && offset >= tables_.image.cursor())
            corrupt("an object comes behind its owner");
        return reinterpret_cast<E*>(target<E>(offset, count));
    }
    void place_array(const ArrayRecord& record) {
        if constexpr (Types::kIsOpen)
            ClassMending<Mender>::place_array(*this, record);
        else
            place_claimed(record);
    }
    void place_claimed(const ArrayRecord& record) {
        using PlaceArray = void (*)(Mender&, std::uint64_t);
        static constexpr auto kPlace = []<class... T>(List<T...>) {
            return std::array<PlaceArray, sizeof...(T) + 1>{
                nullptr,
                [](Mender& mender, std::uint64_t count) { mender.template place<T>(count); }...};
        }(typename Types::Claimed{});
        if (record.type == 0 || record.type >= kPlace.size() || record.count == 0)
            corrupt("an array of no type of the graph");
        kPlace[record.type](*this, record.count);
    }

    template <class E>
    static constexpr bool kHasRuns = sizeof(E) <= Claims::kPageBytes && alignof(E) <= kImageGranule
                                     && (kPlain<E> || kHasReferences<E>);
    // The first of these pointers, as far as they lead to new objects: for little more than reading
    // them. Returns how many.
    template <class E>
    std::uint64_t mend_run(std::byte* fields, std::uint64_t count) {
        constexpr std::uint64_t stride = kGranules<E> * kImageGranule;
        std::uint64_t start = 0;
        std::byte* const first = tables_.image.peek(count * stride, kImageGranule, start);
        if (first == nullptr || tables_.records.next() < references_ + count) return 0;
        std::uint64_t placed = 0, i = 0;
        for (; i < count; ++i) {
            std::uint64_t raw = 0;
            std::memcpy(&raw, fields + i * sizeof raw, sizeof raw);
            if (raw == 0) continue;
            if ((raw & kPlaceBit) != 0) break;
            std::byte* const at = first + placed++ * stride;
            store(fields + i * sizeof raw, at);
            if constexpr (kHasReferences<E>) mend_later<E>(at, 1);
        }
        if (placed == 0) return i;
        tables_.placement.template place_run<E>(start, placed, Types::template number_of<E>());
        tables_.image.set(start + (placed - 1) * stride + sizeof(E));
        __builtin_prefetch(first + placed * stride + kPrefetchBytes);
        references_ += placed;
        objects_ += placed;
        return i;
    }

    // ---- the walk ----
    // As Packer::step_one().
    template <class E>
    static void step_one(Mending& mending, const MendFrame& frame) {
        auto& mender = static_cast<Mender&>(mending);
        std::byte* at = frame.at;
        while (true) {
            TraitOf<E>::mend(mender, *reinterpret_cast<E*>(at));
            Column<MendFrame>& stack = mender.tables_.stack;
            if (stack.empty() || stack.back().step != &step_one<E> || !mender.may_go_on()) return;
            at = stack.back().at;
            stack.pop_back();
            if constexpr (PointerFan<E>)
                if (stack.size() > 1) __builtin_prefetch((stack.end() - 2)->at, 1);
            ++mender.steps_;
        }
    }
    template <class E>
    static void step(Mending& mending, const MendFrame& frame) {
        auto& mender = static_cast<Mender&>(mending);
        auto* const first = reinterpret_cast<E*>(frame.at);
        const std::uint64_t now = std::min(frame.count, kStepObjects);
        if (frame.count > now)
            mender.put_off({&step<E>, frame.at + now * sizeof(E), frame.count - now, 0});
        mend_objects(mender, first, now);
    }
    static bool run_all(Mending& mending) { return static_cast<Mender&>(mending).walk(); }
    bool walk() {
        if (references_ == 0) {
            if (told_.references == 0) return false;
            // The sender may have begun anew while references were drained.
            drained_ = {};
            likely_ = {};
            take_root();
        }
        while (!done_) {
            if (!run_frames()) return must_wait();
            if (references_ >= told_.references && !told_.is_last) return false;
            if (drain_next()) continue;
            if (!told_.is_last) return false;
            finish();
        }
        return true;
    }
    bool must_wait() const {
        if (told_.is_last) corrupt("its walk goes on behind its end");
        return false;
    }
    // It may be an element of an array, which a record tells of.
    void take_root() {
        const std::uint64_t reference = references_++;
        if constexpr (Types::kIsOpen) {
            root_ = root_type_.take(*this);
        } else {
            if constexpr (Types::template claims<Root>())
                if (reference == tables_.records.next()) return void(root_ = by_record<Root>(1));
            root_ = place<Root>(1);
        }
    }
    bool drain_next() {
        if constexpr (Types::kIsOpen) return ClassMending<Mender>::drain_next(*this);
        if constexpr (Types::kInnerTypes > 0) {
            using Drain = bool (Mender::*)();
            static constexpr auto kDrain = []<class... T>(List<T...>) {
                return std::array<Drain, sizeof...(T)>{&Mender::template drain_one<T>...};
            }(typename Types::Inner{});
            for (const std::size_t index : Types::inner_order())
                if ((this->*kDrain[index])()) return true;
        }
        return false;
    }
    template <class E>
    bool drain_one() {
        constexpr std::size_t index = Types::template inner_index_of<E>();
        auto& waiting = tables_.waiting[index];
        if (drained_[index] == waiting.size()) return false;
        const WaitingField next = waiting[drained_[index]++];
        if (drained_[index] == waiting.size()) {
            waiting.clear();
            drained_[index] = 0;
        }
        const std::uint64_t reference = references_++;
        store(next.field, reference == tables_.records.next() ? by_record<E>(next.count)
                                                              : place<E>(next.count));
        return true;
    }

    // Pointers often lead to elements of the same array, or to the same part of another object.
    struct Likely {
        std::uint64_t start = 0, bytes = 0;
        Placement::Part part;

        void learn(std::uint64_t offset, const Place& place, const TypeKey& type,
                   const Placement& placement) noexcept {
            const Placement::Object& object = place.object;
            if (object.count > 1 && &placement.type_of(object) == &type)
                start = object.offset, bytes = object.count * type.bytes;
            if (object.count == 1 && place.held == Held::always)
                part = {offset - object.offset, object.number};
        }
    };
    std::array<std::size_t, Types::kInnerTypes + 1> drained_{};
    std::array<Likely, Types::kInnerTypes + 1> likely_{};
    OpenRoot root_type_;
};

}  // namespace verbatim::objects

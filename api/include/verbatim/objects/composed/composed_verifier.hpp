// The composed verifier is the receiver's walk over a composed message. The bytes are the peer's,
// and come with addresses: each is checked to lead to an object of its type. Where the message lies
// elsewhere than it was composed, addresses are moved. Links of containers are written anew, and
// memory resources. A failed check throws Error(corrupt_message), and nothing is handed out. Trust:
// as for images, the peer must not rewrite the bytes meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/objects/composed/composed_chain.hpp>
#include <verbatim/objects/composed/composed_lanes.hpp>
#include <verbatim/objects/composed/composed_walk.hpp>
#include <verbatim/objects/graph/image_cursor.hpp>
#include <verbatim/objects/graph/mending.hpp>

namespace verbatim::objects {

class ComposedVerifying {
  public:
    [[noreturn]] static void corrupt(const char* what) { throw_corrupt(what); }

  protected:
    explicit ComposedVerifying(ComposedTables& tables) noexcept
        : stack_(tables.stack), left_(tables.left) {
        stack_.clear();
        left_.clear();
    }
    // Calls the validators. Throws Error.
    void validate() const;

    Column<ComposedVerifyFrame>& stack_;
    Column<std::byte*>& left_;
    Column<ToValidate> to_validate_;
};

// Throws Error(unsupported): this program takes no composed messages of such a type.
[[noreturn]] void refuse_composed(const TypeInfo& root);
// The offset of the root. Sets where the message was composed. Throws Error(corrupt_message).
std::uint64_t read_composed_head(ComposedMemory& memory);

template <class Root>
class ComposedVerifier final : public ComposedVerifying,
                               public ComposedWalk<ComposedVerifier<Root>, Root> {
  public:
    using Base = ComposedWalk<ComposedVerifier<Root>, Root>;
    using typename Base::Types;
    using Frame = ComposedVerifyFrame;
    using Walk = ComposedVerifying;

    explicit ComposedVerifier(ComposedTables& tables) : ComposedVerifying(tables), Base(tables) {}
    // `memory` starts at a multiple of the largest alignment of the graph's types.
    Root* run(ComposedMemory memory) {
        const std::uint64_t root = read_composed_head(memory);
        Base::begin(memory);
        Root* const made = owned<Root>(1, reinterpret_cast<const void*>(memory.address + root));
        do {
            while (!stack_.empty()) {
                const ComposedVerifyFrame& frame = stack_.back();  // as in Packing::run_frames()
                stack_.pop_back();
                if (stack_.size() > 1) __builtin_prefetch((stack_.end() - 2)->at);
                frame.step(*this, frame);
            }
        } while (Base::drain());
        validate();
        return made;
    }
    std::uint64_t objects() const noexcept { return Base::objects_; }

    // ---- called by the mend() of traits ----
    // The objects that a container owns, which the peer says lie at `address`.
    template <class E>
    [[gnu::always_inline]] E* owned(std::uint64_t count, const void* address) {
        const std::uint64_t at = place_of<E>(address, count);
        Base::template follow<E>(at, count);
        return local<E>(at);
    }
    template <class E>
    [[gnu::always_inline]] void pointer(void* field) {
        const void* address = nullptr;
        std::memcpy(&address, field, sizeof address);
        if (address == nullptr) return;
        if constexpr (Types::template is_inner<E>()) {
            const std::uint64_t offset =
                reinterpret_cast<std::uint64_t>(address) - Base::memory_.address;
            if (Base::template is_near<E>(offset)) return store(field, offset);
        }
        const std::uint64_t at = place_of<E>(address, 1);
        store(field, at);
        if constexpr (Types::template is_inner<E>())
            Base::template follow_inner<E>(at, 1);
        else
            Base::template follow<E>(at, 1);
    }
    template <class E>
    void view(void* field, std::uint64_t count) {
        const void* address = nullptr;
        if (count == 0) return void(std::memcpy(field, &address, sizeof address));
        std::memcpy(&address, field, sizeof address);
        const std::uint64_t at = place_of<E>(address, count);
        store(field, at);
        Base::template follow_inner<E>(at, count);
    }
    template <class C>
    void text(void* field) {
        const void* address = nullptr;
        std::memcpy(&address, field, sizeof address);
        if (address != nullptr) corrupt("a composed message has a text without a length");
    }
    template <class P>
    void pointers(P* first, std::uint64_t count) {
        using E = std::remove_cv_t<std::remove_pointer_t<P>>;
        if constexpr (Pointers::template kTakes<E>) {
            const Pointers at(Base::map_.cells(), Base::memory_);
            for (std::uint64_t i = 0; i < count; ++i)
                if (std::byte* const target = at.template follow<E>(first + i)) begin<E>(target);
        } else {
            for (std::uint64_t i = 0; i < count; ++i) pointer<E>(first + i);
        }
    }
    // The node that lies there. Nothing is known of it but that it lies in the message.
    template <class Node>
    Node* look_at(const void* address) const {
        return local<Node>(place_of<Node>(address, 1));
    }
    // It becomes a node of one container.
    template <class Node>
    [[gnu::always_inline]] void claim_node(const Node* node) {
        const auto* const at = reinterpret_cast<const std::byte*>(node);
        const auto offset = static_cast<std::uint64_t>(at - Base::memory_.bytes);
        if (Base::template meet<Node>(offset, 1) != Base::Met::fresh)
            corrupt("two containers have the same node");
    }
    // And an object.
    template <class Node>
    [[gnu::always_inline]] void mend_node(Node* node) {
        if constexpr (!kPlain<Node>) TraitOf<Node>::mend(*this, *node);
    }
    // Memory of a container that holds no objects.
    std::byte* room(const void* address, std::uint64_t bytes) {
        const std::uint64_t at = place_of<std::byte>(address, bytes);
        if (!Base::map_.claim(at, bytes)) corrupt("two containers have the same memory");
        return Base::memory_.bytes + at;
    }
    // Objects in such memory.
    template <class E>
    E* inside(const void* address, std::uint64_t count) {
        const std::uint64_t at = place_of<E>(address, count);
        Base::template note<E>(at, count);
        push<E>(at, count);
        return local<E>(at);
    }
    // The address that a place of the message had where it was composed.
    const std::byte* composed_address(const std::byte* here) const noexcept {
        const std::uint64_t at = static_cast<std::uint64_t>(here - Base::memory_.bytes);
        return reinterpret_cast<const std::byte*>(Base::memory_.address + at);
    }
    void put_off(const ComposedVerifyFrame& frame) { stack_.push_back(frame); }
    template <class E>
    void validate_later(const E* object, bool (*is_valid)(const std::byte*)) {
        to_validate_.push_back(
            {is_valid, reinterpret_cast<const std::byte*>(object), &kTypeKey<E>});
    }

  private:
    friend Base;
    using Pointers = ComposedPointers<ComposedVerifier>;

    template <class E>
    [[gnu::always_inline]] std::uint64_t place_of(const void* address, std::uint64_t count) const {
        const std::uint64_t at =
            Base::template locate<E>(reinterpret_cast<std::uint64_t>(address), count);
        if (at == Base::kOutside) corrupt("a reference leads out of the message");
        return at;
    }
    template <class E>
    E* local(std::uint64_t offset) const noexcept {
        return reinterpret_cast<E*>(Base::memory_.bytes + offset);
    }
    // Pages whose addresses were right stay as they came.
    [[gnu::always_inline]] void store(void* field, std::uint64_t offset) const noexcept {
        const std::byte* const target = Base::memory_.bytes + offset;
        if (Base::memory_.distance() != 0) std::memcpy(field, &target, sizeof target);
    }
    [[noreturn]] static void refuse(const char* what) { corrupt(what); }
    template <class E>
    [[gnu::always_inline]] void push(std::uint64_t offset, std::uint64_t count) {
        [[maybe_unused]] std::byte* const at = Base::memory_.bytes + offset;
        if constexpr (kHasReferences<E>)
            stack_.push_back({count == 1 ? &step_one<E> : &step<E>, at, count, 0});
        else if constexpr (!kPlain<E>)
            for (std::uint64_t i = 0; i < count; ++i)
                TraitOf<E>::mend(*this, *reinterpret_cast<E*>(at + i * sizeof(E)));
    }
    // One that was met, while no object is mended. A linked one puts off what it leads to.
    template <class E>
    [[gnu::always_inline]] void begin(std::byte* object) {
        ++Base::objects_;
        if constexpr (kIsLinked<E>)
            mend_one<E>(object);
        else
            push<E>(static_cast<std::uint64_t>(object - Base::memory_.bytes), 1);
    }
    template <class E>
    static void step_one(ComposedVerifying& walk, const ComposedVerifyFrame& frame) {
        fetch_object<E>(frame.at);
        static_cast<ComposedVerifier&>(walk).template mend_one<E>(frame.at);
    }
    template <class E>
    [[gnu::always_inline]] void mend_one(std::byte* object) {
        if constexpr (kIsChained<E> && Pointers::template kTakes<E>) {
            const Pointers pointers(Base::map_.cells(), Base::memory_);
            ComposedChain<ComposedVerifier, E> chain(*this, pointers, left_);
            Base::objects_ += chain.run(object);
        } else if constexpr (!kPlain<E>) {
            TraitOf<E>::mend(*this, *reinterpret_cast<E*>(object));
        }
    }
    // The frame is gone with the first that is put off.
    template <class E>
    static void step(ComposedVerifying& walk, const ComposedVerifyFrame& frame) {
        auto& verifier = static_cast<ComposedVerifier&>(walk);
        auto* const first = reinterpret_cast<E*>(frame.at);
        const std::uint64_t count = frame.count;
        if constexpr (ComposedLanes<E, Types>::takes()) {
            const std::uint64_t distance = verifier.memory_.distance();
            const ComposedLanes<E, Types> lanes(verifier.memory_.address, distance, [&]<class F>() {
                return verifier.template near<F>();
            });
            lanes.walk(
                first, count,
                [&](E* block) {
                    if (distance != 0) lanes.move(block);
                },
                [&](E* others, std::uint64_t n) { mend_objects(verifier, others, n); });
        } else {
            mend_objects(verifier, first, count);
        }
    }
};

}  // namespace verbatim::objects

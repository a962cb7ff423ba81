// std::list and std::forward_list, std and std::pmr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <forward_list>
#include <iterator>
#include <list>
#include <span>
#include <string>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/linked_nodes.hpp>
#include <verbatim/objects/traits/container.hpp>
#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

// The image's `previous` is the last node so far.
template <class V>
class ListLinker {
  public:
    using Node = ListNode<V>;
    static constexpr bool kIsKeyed = false;

    ListLinker(auto&, std::byte* image) noexcept
        : ends_(reinterpret_cast<ListImage*>(image)->ends), last_(ends_.previous) {}
    void add(Node* node) noexcept {
        node->links.previous = last_;
        last_->next = &node->links;
        last_ = &node->links;
    }
    void stop() noexcept { ends_.previous = last_; }
    void finish() noexcept { last_->next = &ends_; }

  private:
    ListLinks& ends_;
    ListLinks* last_;
};

// The last node so far is noted in its own `next`, and that in the image: a ring until the end.
template <class V>
class ChainLinker {
  public:
    using Node = ChainNode<V>;
    static constexpr bool kIsKeyed = false;

    ChainLinker(auto&, std::byte* image) noexcept
        : head_(*reinterpret_cast<ChainLink*>(image)), last_(head_.next), first_(last_->next) {}
    void add(Node* node) noexcept {
        last_->next = &node->links;
        last_ = &node->links;
        if (first_ == &head_) first_ = last_;
    }
    void stop() noexcept {
        last_->next = first_;
        head_.next = last_;
    }
    void finish() noexcept {
        last_->next = nullptr;
        head_.next = first_;
    }

  private:
    ChainLink& head_;
    ChainLink* last_;
    ChainLink* first_;
};

}  // namespace detail

template <class V, class A>
struct Trait<std::list<V, A>> : detail::ContainerTrait<A, V, OwnedOne, ListNode<V>> {
    using Container = std::list<V, A>;
    using Node = ListNode<V>;
    using Trait::ContainerTrait::kPolymorphic;

    static std::string spell() { return Trait::spell_container("list"); }
    template <class S>
    static void pack(S& sender, const Container& list, Slot) {
        const auto& image = Trait::template image_of<ListImage>(&list);
        if (detail::knows_nodes<Node>(sender, list, image.size)) return;
        detail::NodePacking<Node, S>::begin(sender, image.ends.next, image.size);
    }
    template <class R>
    static void mend(R& receiver, Container& list) {
        std::byte* const bytes = forbid_allocation<kPolymorphic>(&list);
        auto* image = reinterpret_cast<ListImage*>(bytes);
        const void* const first = image->ends.next;
        image->ends = {&image->ends, &image->ends};
        if (image->size == 0) return;
        using Linker = detail::ListLinker<V>;
        if constexpr (ByAddress<R>) {
            detail::LinkedNodes<Linker, R>::begin(receiver, bytes, image->size, first);
        } else {
            if constexpr (R::Types::template claims<Node>())
                receiver.validate_later(&list, &is_whole);
            detail::NodeMending<Linker, R>::begin(receiver, bytes, image->size);
        }
    }

  private:
    static bool is_whole(const std::byte* list) noexcept {
        return list_is_whole(Trait::template image_of<ListImage>(list));
    }
};

// Its copy has the number of its elements in place of the address of the first, but in composed
// messages.
template <class V, class A>
struct Trait<std::forward_list<V, A>> : detail::ContainerTrait<A, V, OwnedOne, ChainNode<V>> {
    using Container = std::forward_list<V, A>;
    using Node = ChainNode<V>;
    using Trait::ContainerTrait::kImageAt;
    using Trait::ContainerTrait::kPolymorphic;

    static std::string spell() { return Trait::spell_container("forward_list"); }
    template <class S>
    static void pack(S& sender, const Container& list, Slot slot) {
        const auto count = static_cast<std::uint64_t>(std::distance(list.begin(), list.end()));
        sender.amend(slot.at(kImageAt), std::as_bytes(std::span(&count, 1)));
        const auto& image = Trait::template image_of<ChainLink>(&list);
        if (detail::knows_nodes<Node>(sender, list, count)) return;
        detail::NodePacking<Node, S>::begin(sender, image.next, count);
    }
    template <class R>
    static void mend(R& receiver, Container& list) {
        std::byte* const bytes = forbid_allocation<kPolymorphic>(&list);
        std::uint64_t count = 0;
        std::memcpy(&count, bytes, sizeof count);
        if (count == 0) return;
        auto* head = reinterpret_cast<ChainLink*>(bytes);
        const void* const first = head->next;
        head->next = head;
        using Linker = detail::ChainLinker<V>;
        if constexpr (ByAddress<R>) {
            detail::LinkedNodes<Linker, R>::begin(receiver, bytes, detail::kUntilNull, first);
        } else {
            if constexpr (R::Types::template claims<Node>())
                receiver.validate_later(&list, &is_whole);
            detail::NodeMending<Linker, R>::begin(receiver, bytes, count);
        }
    }

  private:
    static bool is_whole(const std::byte* list) noexcept {
        return chain_ends(Trait::template image_of<ChainLink>(list).next);
    }
};

}  // namespace verbatim::objects

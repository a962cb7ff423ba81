// std::map, std::set and their multi forms, std and std::pmr. The receiver makes a balanced tree of
// the nodes, which come in order, and checks that order once. In composed messages the tree is
// there, and is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <verbatim/objects/describe/type_name.hpp>
#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/linked_nodes.hpp>
#include <verbatim/objects/traits/container.hpp>
#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class Compare, class K>
inline constexpr bool kIsGreater =
    std::is_same_v<Compare, std::greater<K>> || std::is_same_v<Compare, std::greater<>>;
// The order that a container's spelled name tells: peers must have the same.
template <class Compare, class K>
std::string spell_order() {
    if constexpr (std::is_same_v<Compare, std::less<K>> || std::is_same_v<Compare, std::less<>>)
        return {};
    else if constexpr (kIsGreater<Compare, K>)
        return " descending";
    else
        return " by " + type_name<Compare>();
}

// `fits`: may a node come before another one?
template <class V, class KeyOf, class Compare, bool IsMulti>
struct KeyOrder {
    using Node = TreeNode<V>;

    static bool fits(const TreeLinks& a, const TreeLinks& b) {
        return IsMulti ? !Compare{}(key_of(b), key_of(a))
                       : static_cast<bool>(Compare{}(key_of(a), key_of(b)));
    }

  private:
    static const auto& key_of(const TreeLinks& links) noexcept {
        return KeyOf::of(NodeTrait<Node>::value_of(reinterpret_cast<const Node&>(links)));
    }
};

// Until finish(), the nodes are chained by `right`, from the header's `left` to its `right`.
template <class Order, bool ChecksLate>
class TreeLinker {
  public:
    using Node = typename Order::Node;
    static constexpr bool kIsKeyed = true;

    TreeLinker(auto& receiver, std::byte* image) noexcept
        : corrupt_(&receiver.corrupt),
          tree_(*reinterpret_cast<TreeImage*>(image)),
          last_(tree_.header.right) {}
    void add(Node* node) {
        if (last_ == nullptr) {
            tree_.header.left = &node->links;
        } else {
            if constexpr (!ChecksLate) check_order(*last_, node->links);
            last_->right = &node->links;
        }
        last_ = &node->links;
    }
    void stop() noexcept {
        last_->right = nullptr;
        tree_.header.right = last_;
    }
    void finish() {
        if constexpr (ChecksLate) check_all();
        build_tree(tree_);
    }

  private:
    void check_order(const TreeLinks& a, const TreeLinks& b) const {
        if (!Order::fits(a, b)) corrupt_("the keys of a container are out of order");
    }
    void check_all() const {
        const TreeLinks* at = tree_.header.left;
        for (std::size_t i = 1; i < tree_.count; ++i) {
            if (at->right == nullptr) corrupt_("two containers have the same node");
            check_order(*at, *at->right);
            at = at->right;
        }
    }

    void (*corrupt_)(const char*);
    TreeImage& tree_;
    TreeLinks* last_;
};

template <class Container, class V, class KeyOf, bool IsMulti>
struct OrderedTrait : ContainerTrait<typename Container::allocator_type, V, OwnedOne, TreeNode<V>> {
    using Compare = typename Container::key_compare;
    using Key = typename KeyOf::Key;
    static_assert(
        kIsStateless<Compare>,
        "verbatim: ordered containers need a comparator without state: the receiver makes "
        "its own");
    static_assert(is_value_key<Key>(),
                  "verbatim: keys must be numbers, enums, strings, or tuples, optionals, variants, "
                  "arrays and classes of these: others may compare differently at the receiver");
    using Node = TreeNode<V>;
    using Order = KeyOrder<V, KeyOf, Compare, IsMulti>;
    using OrderedTrait::ContainerTrait::kPolymorphic;
    static constexpr std::size_t kImageAt = kAllocatorBytes<kPolymorphic> + kComparatorBytes;
    static_assert(sizeof(Container) == kImageAt + sizeof(TreeImage),
                  "verbatim: the comparator of a container may not be over-aligned");

    static std::string spell_as(std::string_view name) {
        return OrderedTrait::spell_container(name, spell_order<Compare, Key>());
    }
    template <class S>
    static void pack(S& sender, const Container& container, Slot) {
        const auto& image = OrderedTrait::template image_of<TreeImage, kImageAt>(&container);
        if (knows_nodes<Node>(sender, container, image.count)) return;
        NodePacking<Node, S>::begin_keyed(sender, image.header.left, image.count);
    }
    template <class R>
    static void mend(R& receiver, Container& container) {
        std::byte* const bytes = forbid_allocation<kPolymorphic>(&container) + kComparatorBytes;
        auto* image = reinterpret_cast<TreeImage*>(bytes);
        const void* const root = image->header.parent;
        image->header = {TreeLinks::kRed, nullptr, &image->header, &image->header};
        if (image->count == 0) return;
        image->header.left = image->header.right = nullptr;
        if constexpr (ByAddress<R>) {
            LinkedTree<Node, Order, R>::begin(receiver, bytes, image->count, root);
        } else {
            if constexpr (R::Types::template claims<Node>())
                receiver.validate_later(&container, &is_whole);
            using Linker = TreeLinker<Order, kWalksNodes<R, Node>>;
            NodeMending<Linker, R>::begin_keyed(receiver, bytes, image->count);
        }
    }

  private:
    static bool is_whole(const std::byte* container) noexcept {
        return tree_is_whole(OrderedTrait::template image_of<TreeImage, kImageAt>(container));
    }
};

}  // namespace detail

template <class K, class T, class C, class A>
struct Trait<std::map<K, T, C, A>>
    : detail::OrderedTrait<std::map<K, T, C, A>, std::pair<const K, T>, detail::FirstKey<K>,
                           false> {
    static std::string spell() { return Trait::spell_as("map"); }
};
template <class K, class T, class C, class A>
struct Trait<std::multimap<K, T, C, A>>
    : detail::OrderedTrait<std::multimap<K, T, C, A>, std::pair<const K, T>, detail::FirstKey<K>,
                           true> {
    static std::string spell() { return Trait::spell_as("multimap"); }
};
template <class K, class C, class A>
struct Trait<std::set<K, C, A>>
    : detail::OrderedTrait<std::set<K, C, A>, K, detail::WholeKey<K>, false> {
    static std::string spell() { return Trait::spell_as("set"); }
};
template <class K, class C, class A>
struct Trait<std::multiset<K, C, A>>
    : detail::OrderedTrait<std::multiset<K, C, A>, K, detail::WholeKey<K>, true> {
    static std::string spell() { return Trait::spell_as("multiset"); }
};

}  // namespace verbatim::objects

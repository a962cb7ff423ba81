// Nodes of containers: each is an object of the image with its value inside. Only values travel
// with a meaning: links are written by the receiver. Values without pointers into nodes anywhere in
// the closure are packed with their node; else each node is walked by itself, because a reference
// may meet it before its container does.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <verbatim/objects/describe/markings.hpp>
#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/libstdcxx_values.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

template <class Node>
struct NodeTrait {
    using Value = typename Node::Value;
    using Parts = List<Value>;
    using Edges = List<>;
    static constexpr bool kPlain = verbatim::objects::kPlain<Value>;
    static std::string spell() { return spell_template(Node::kName, {&TraitOf<Value>::spell}); }
    static TypeInfo info() {
        return objects::info_of_part(&type_info<Value>, "value", offsetof(Node, value));
    }
    template <class S>
    [[gnu::always_inline]] static void pack(S& sender, const Node& node, Slot slot) {
        TraitOf<Value>::pack(sender, value_of(node), slot.at(offsetof(Node, value)));
    }
    template <class R>
    [[gnu::always_inline]] static void mend(R& receiver, Node& node) {
        TraitOf<Value>::mend(receiver, *reinterpret_cast<Value*>(node.value));
    }
    static const Value& value_of(const Node& node) noexcept {
        return *reinterpret_cast<const Value*>(node.value);
    }
};

// A node whose value is packed together with it.
template <class Node>
struct alignas(Node) NodeBytes {
    std::byte bytes[sizeof(Node)];
};

// Larger nodes may need segments of their own.
inline constexpr std::size_t kMostPackedBytes = std::size_t{64} << 10;
// No graph has bytes for more objects.
inline constexpr std::uint64_t kMostObjects = std::uint64_t{1} << 32;

// Is each node walked by itself?
template <class Walk, class Node>
inline constexpr bool kWalksNodes = kHasReferences<Node> && (Walk::Types::template claims<Node>() ||
                                                             sizeof(Node) > kMostPackedBytes);

template <class Node, class S>
[[gnu::always_inline]] inline void pack_node(S& sender, const Node* node) {
    if constexpr (!kHasReferences<Node> || kWalksNodes<S, Node>) {
        sender.template owned<Node>(node, 1);
    } else {
        sender.template owned<NodeBytes<Node>>(reinterpret_cast<const NodeBytes<Node>*>(node), 1);
        TraitOf<Node>::pack(sender, *node, Slot{sender.image_bytes() - sizeof(Node)});
    }
}
template <class Node, class R>
[[gnu::always_inline]] inline Node* mend_node(R& receiver) {
    if constexpr (!kHasReferences<Node> || kWalksNodes<R, Node>) {
        return receiver.template owned<Node>(1);
    } else {
        auto* node = reinterpret_cast<Node*>(receiver.template owned<NodeBytes<Node>>(1));
        TraitOf<Node>::mend(receiver, *node);
        return node;
    }
}

// Fetches ahead what packing a value will read.
template <class V>
void fetch_targets(const V& value) noexcept {
    if constexpr (!kHasReferences<V>)
        return;
    else if constexpr (requires { value.first, value.second; })
        detail::fetch_targets(value.first), detail::fetch_targets(value.second);
    else if constexpr (requires { value.data(); })
        __builtin_prefetch(value.data());
    else if constexpr (std::is_pointer_v<V>)
        __builtin_prefetch(value);
}

// Does the walk know of a container's nodes without a look at each?
template <class Node, class S>
[[gnu::always_inline]] inline bool knows_nodes(S& sender, const auto& container,
                                               std::uint64_t count) {
    if constexpr (requires { sender.template knows_nodes<Node>(container, count); })
        return sender.template knows_nodes<Node>(container, count);
    else
        return false;
}

// The sender's walk over the nodes of one container, which are found by Node::next().
template <class Node, class S>
struct NodePacking {
    static void begin(S& sender, const void* first, std::uint64_t count) {
        if (count > 0)
            sender.put_off({&step, static_cast<const std::byte*>(first), kTogether, count});
    }
    // The same, if the receiver finishes the container when all of its nodes are walked.
    static void begin_keyed(S& sender, const void* first, std::uint64_t count) {
        if constexpr (kWalksNodes<S, Node>)
            if (count > 0) sender.put_off({&nothing, nullptr, 0, 0});
        begin(sender, first, count);
    }

  private:
    using Links = std::remove_cvref_t<decltype(Node::links)>;

    static void step(typename S::Walk& walk, const typename S::Frame& frame) {
        auto& sender = static_cast<S&>(walk);
        std::array<const Node*, kStepObjects> nodes;
        const std::uint64_t count = frame.count, now = std::min(count, kStepObjects);
        const auto* at = reinterpret_cast<const Links*>(frame.source);
        if constexpr (requires { Node::fetch_after(at); })
            if (frame.offset == kScattered) Node::fetch_after(at);
        for (std::uint64_t i = 0; i < now; ++i) {
            nodes[i] = reinterpret_cast<const Node*>(at);
            if (i + 1 < count) at = Node::next(at);
        }
        if (count > now)  // overwrites the frame
            sender.put_off({&step, reinterpret_cast<const std::byte*>(at),
                            are_scattered(nodes) ? kScattered : kTogether, count - now});
        if constexpr (kHasReferences<Node>)
            for (std::uint64_t i = 0; i < now; ++i)
                detail::fetch_targets(NodeTrait<Node>::value_of(*nodes[i]));
        for (std::uint64_t i = 0; i < now; ++i) pack_node(sender, nodes[i]);
    }
    // Are they far from each other in memory?
    static bool are_scattered(const std::array<const Node*, kStepObjects>& nodes) noexcept {
        std::size_t far = 0;
        for (std::size_t i = 1; i < nodes.size(); ++i) {
            const auto distance = reinterpret_cast<std::uint64_t>(nodes[i]) -
                                  reinterpret_cast<std::uint64_t>(nodes[i - 1]);
            far += distance + kNearBytes > 2 * kNearBytes;
        }
        return far > nodes.size() / 4;
    }
    static constexpr std::uint64_t kNearBytes = 1024;
    // The frame's offset says it of the last nodes: no object has such an offset.
    static constexpr std::uint64_t kTogether = 1, kScattered = 3;

    static void nothing(typename S::Walk&, const typename S::Frame&) {}
};

// The receiver's walk. `Linker` is made from the receiver and the container's image, which has its
// state between the steps; add() takes a node, stop() ends a step, finish() the container.
template <class Linker, class R>
struct NodeMending {
    using Node = typename Linker::Node;

    static void begin(R& receiver, std::byte* image, std::uint64_t count) {
        receiver.put_off({&step, image, count, 0});
    }
    static void begin_keyed(R& receiver, std::byte* image, std::uint64_t count) {
        if constexpr (kWalksNodes<R, Node>) receiver.put_off({&finish, image, 0, 0});
        begin(receiver, image, count);
    }

  private:
    static void step(typename R::Walk& walk, const typename R::Frame& frame) {
        auto& receiver = static_cast<R&>(walk);
        std::byte* const at = frame.at;
        const std::uint64_t count = frame.count, now = std::min(count, kStepObjects);
        if (count > now) receiver.put_off({&step, at, count - now, 0});  // overwrites the frame
        Linker linker(receiver, at);
        for (std::uint64_t i = 0; i < now; ++i) linker.add(mend_node<Node>(receiver));
        linker.stop();
        if (count == now && !(Linker::kIsKeyed && kWalksNodes<R, Node>)) linker.finish();
    }
    static void finish(typename R::Walk& walk, const typename R::Frame& frame) {
        walk.link_later(&link, frame.at);
    }
    static void link(typename R::Walk& walk, std::byte* image) { Linker(walk, image).finish(); }
};

// The value is the key, or starts with it.
template <class K>
struct WholeKey {
    using Key = K;
    static const K& of(const K& value) noexcept { return value; }
};
template <class K>
struct FirstKey {
    using Key = K;
    static const K& of(const auto& value) noexcept { return value.first; }
};

// Keys that are whole as soon as they are mended, and mean the same in every process. Classes of
// the program are, whose members are; validators run later than the first comparison.
template <class K>
constexpr bool is_value_key() noexcept;
template <class... K>
constexpr bool are_value_keys(List<K...>) noexcept {
    return (is_value_key<std::remove_cv_t<K>>() && ...);
}
template <class K>
struct KeyParts;  // of standard types
template <class K>
requires(std::is_arithmetic_v<K> || std::is_enum_v<K>) struct KeyParts<K>
    : std::type_identity<List<>> {
};
template <class C, class A>
struct KeyParts<std::basic_string<C, std::char_traits<C>, A>> : std::type_identity<List<>> {};
template <>
struct KeyParts<std::monostate> : std::type_identity<List<>> {};
template <std::size_t N>
struct KeyParts<std::bitset<N>> : std::type_identity<List<>> {};
template <class R, class P>
struct KeyParts<std::chrono::duration<R, P>> : std::type_identity<List<R>> {};
template <class C, class D>
struct KeyParts<std::chrono::time_point<C, D>> : std::type_identity<List<D>> {};
template <class... K>
struct KeyParts<std::tuple<K...>> : std::type_identity<List<K...>> {};
// A valueless one throws where it is compared.
template <class... K>
requires(!VariantImage<K...>::kCanBeValueless) struct KeyParts<std::variant<K...>>
    : std::type_identity<List<K...>> {
};
template <class A, class B>
struct KeyParts<std::pair<A, B>> : std::type_identity<List<A, B>> {};
template <class K, std::size_t N>
struct KeyParts<std::array<K, N>> : std::type_identity<List<K>> {};
template <class K, std::size_t N>
struct KeyParts<K[N]> : std::type_identity<List<K>> {};
template <class K>
struct KeyParts<std::optional<K>> : std::type_identity<List<K>> {};

template <class K>
constexpr bool is_value_key() noexcept {
    if constexpr (requires { typename KeyParts<K>::type; })
        return are_value_keys(typename KeyParts<K>::type{});
    else if constexpr (!std::is_class_v<K> || std::is_polymorphic_v<K> || Validated<K>)
        return false;
    else if constexpr (requires { typename TraitOf<K>::Product::Parts; })
        return are_value_keys(typename TraitOf<K>::Product::Parts{});
    else
        return false;
}

// Comparators and hash functions of a container: the receiver makes its own. A final one lies in
// the container otherwise.
template <class F>
inline constexpr bool kIsStateless =
    std::is_empty_v<F> && !std::is_final_v<F> && std::is_default_constructible_v<F>;

}  // namespace detail

template <class V>
struct Trait<ListNode<V>> : detail::NodeTrait<ListNode<V>> {};
template <class V>
struct Trait<ChainNode<V>> : detail::NodeTrait<ChainNode<V>> {};
template <class V>
struct Trait<TreeNode<V>> : detail::NodeTrait<TreeNode<V>> {};
template <class V, bool KeepsHash>
struct Trait<HashNode<V, KeepsHash>> : detail::NodeTrait<HashNode<V, KeepsHash>> {};
template <class Node>
struct Trait<detail::NodeBytes<Node>> : PlainTrait {
    static std::string spell() { return "node"; }
};

}  // namespace verbatim::objects

// This header has libstdc++'s layout of the containers that consist of nodes or pieces; no other
// file knows it. verify_library_layout() probes it, as it does libstdcxx.hpp. A node has the value
// as a part of its own, so that pointers may lead to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace verbatim::objects {

// The types may alias: the library reads what is written through them by names of its own.

// std::list<V>: a ring of links, which runs through the container.
struct [[gnu::may_alias]] ListLinks {
    ListLinks *next, *previous;
};
struct [[gnu::may_alias]] ListImage {
    ListLinks ends;
    std::size_t size;
};
template <class V>
struct [[gnu::may_alias]] ListNode {
    using Value = V;
    static constexpr const char* kName = "list_node";
    ListLinks links;
    alignas(V) std::byte value[sizeof(V)];

    static const ListLinks* next(const ListLinks* node) noexcept { return node->next; }
};

// std::forward_list<V>, and the nodes of hash containers: a chain that ends with null.
struct [[gnu::may_alias]] ChainLink {
    ChainLink* next;
};
template <class V>
struct [[gnu::may_alias]] ChainNode {
    using Value = V;
    static constexpr const char* kName = "chain_node";
    ChainLink links;
    alignas(V) std::byte value[sizeof(V)];

    static const ChainLink* next(const ChainLink* node) noexcept { return node->next; }
};

// std::map, std::set and their multi forms: a red-black tree. `header` has the root as its parent,
// the first node at its left, the last one at its right.
struct [[gnu::may_alias]] TreeLinks {
    static constexpr std::uint32_t kRed = 0, kBlack = 1;
    std::uint32_t color;
    TreeLinks *parent, *left, *right;
};
struct [[gnu::may_alias]] TreeImage {
    TreeLinks header;
    std::size_t count;
};
// Fetches the nodes ahead that come after `node` in order, about kStepObjects of them.
void fetch_tree_after(const TreeLinks* node) noexcept;
// The comparator, an empty object, lies between the allocator and the image.
inline constexpr std::size_t kComparatorBytes = 8;
template <class V>
struct [[gnu::may_alias]] TreeNode {
    using Value = V;
    static constexpr const char* kName = "tree_node";
    TreeLinks links;
    alignas(V) std::byte value[sizeof(V)];

    static void fetch_after(const TreeLinks* node) noexcept { fetch_tree_after(node); }
    // The next node in order. Fetches what comes after it ahead.
    static const TreeLinks* next(const TreeLinks* node) noexcept {
        if (node->right != nullptr) {
            for (node = node->right; node->left != nullptr; node = node->left)
                __builtin_prefetch(node->right);
            __builtin_prefetch(node->right);
            return node;
        }
        const TreeLinks* parent = node->parent;
        while (node == parent->right) {
            node = parent;
            parent = parent->parent;
        }
        return parent;
    }
};

// std::unordered_map and its kin: a chain of all nodes. Each bucket has the link before its first
// node. A table with one bucket has it in itself.
struct [[gnu::may_alias]] HashImage {
    ChainLink** buckets;
    std::size_t bucket_count;
    ChainLink before_first;
    std::size_t count;
    float max_load;
    std::size_t next_resize;
    ChainLink* single_bucket;
};
// Nodes keep the hash of keys that are slow to hash. A disabled std::hash is refused elsewhere.
template <class K, class Hash>
inline constexpr bool kKeepsHash = [] {
    if constexpr (std::is_invocable_v<const Hash&, const K&>)
        return std::__cache_default<K, Hash>::value;
    else
        return false;
}();
template <class V, bool KeepsHash>
struct [[gnu::may_alias]] HashNode {
    using Value = V;
    static constexpr const char* kName = "hash_node";
    ChainLink links;
    alignas(V) std::byte value[sizeof(V)];

    static const ChainLink* next(const ChainLink* node) noexcept { return node->next; }
};
template <class V>
struct [[gnu::may_alias]] HashNode<V, true> {
    using Value = V;
    static constexpr const char* kName = "hash_node with hash";
    ChainLink links;
    alignas(V) std::byte value[sizeof(V)];
    std::size_t hash;

    static const ChainLink* next(const ChainLink* node) noexcept { return node->next; }
};
// The number of buckets of a received table: the sender's if that is usual for so many nodes, else
// the library's own. So it is bounded by the nodes, which the graph has bytes for.
inline std::size_t bucket_count_for(std::size_t count, std::size_t sent) noexcept {
    if (sent >= count && sent / 4 <= count + 4 && sent > 0) return sent;
    return std::__detail::_Prime_rehash_policy(1.0f)._M_next_bkt(count);
}

// std::deque<E>: a map of the addresses of buffers, and the places of its first element and of
// its end.
struct [[gnu::may_alias]] DequeEnd {
    std::byte *at, *first, *last;  // of its buffer
    std::byte** entry;             // of the map
};
struct [[gnu::may_alias]] DequeImage {
    std::byte** map;
    std::size_t map_entries;
    DequeEnd start, finish;
};
template <class E>
inline constexpr std::uint64_t kDequeBuffer = sizeof(E) < 512 ? 512 / sizeof(E) : 1;

// std::vector<bool>: words, and a bit of the last one.
struct [[gnu::may_alias]] BitsImage {
    std::byte* start;
    std::uint32_t start_bit;
    std::byte* finish;
    std::uint32_t finish_bit;
    std::byte* storage_end;
};

// Makes a balanced tree of all nodes, which are chained by `right` from the header's `left` to its
// `right`.
void build_tree(TreeImage& tree) noexcept;
// Is it a tree of just its own nodes? Reads only links that build_tree() has written.
bool tree_is_whole(const TreeImage& tree) noexcept;
bool list_is_whole(const ListImage& list) noexcept;
bool chain_ends(const ChainLink* first) noexcept;

// Part of verify_library_layout().
bool containers_are_as_known();

}  // namespace verbatim::objects

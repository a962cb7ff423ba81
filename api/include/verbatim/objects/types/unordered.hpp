// std::unordered_map, std::unordered_set and their multi forms, std and std::pmr. The receiver
// hashes every key again and fills a table of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <verbatim/objects/libstdcxx.hpp>
#include <verbatim/objects/libstdcxx_containers.hpp>
#include <verbatim/objects/linked_nodes.hpp>
#include <verbatim/objects/modulus.hpp>
#include <verbatim/objects/traits/container.hpp>
#include <verbatim/objects/traits/nodes.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {
namespace detail {

// Puts nodes into the table, in the sender's order as far as the number of buckets allows. `last`
// is the last link of the chain; between the steps the image has it as its only bucket.
// `Functions`: of the container, Hash and Equal.
template <class V, class KeyOf, class Functions, bool IsMulti, bool HashesLate>
class HashLinker {
  public:
    using Hash = typename Functions::Hash;
    static constexpr bool kKeepsHash = verbatim::objects::kKeepsHash<typename KeyOf::Key, Hash>;
    using Node = HashNode<V, kKeepsHash>;
    static constexpr bool kIsKeyed = true;

    HashLinker(auto& receiver, std::byte* image)
        : corrupt_(&receiver.corrupt),
          table_(*reinterpret_cast<HashImage*>(image)),
          buckets_(table_.bucket_count),
          last_(*state() == nullptr ? &table_.before_first : *state()) {
        if constexpr (!HashesLate)
            if (last_ != &table_.before_first) last_bucket_ = bucket_of(*last_);
    }
    void add(Node* node) {
        if constexpr (HashesLate)
            append(&node->links);
        else
            insert(node);
    }
    void stop() noexcept {
        last_->next = nullptr;
        if (!is_own_bucket()) *state() = last_;
    }
    void finish() {
        if constexpr (HashesLate) insert_all();
        if (!is_own_bucket()) *state() = nullptr;
    }
    static bool is_whole(const HashImage& table) noexcept {
        const ChainLink* before = &table.before_first;
        std::size_t count = 0, last = table.bucket_count;
        for (; before->next != nullptr; before = before->next, ++count) {
            if (count == table.count) return false;
            const std::size_t bucket =
                hash_of(*reinterpret_cast<const Node*>(before->next)) % table.bucket_count;
            if (bucket != last && table.buckets[bucket] != before) return false;
            last = bucket;
        }
        return count == table.count;
    }

  private:
    static constexpr int kMostCompared = 8;

    static const auto& key_of(const Node& node) noexcept {
        return KeyOf::of(NodeTrait<Node>::value_of(node));
    }
    static std::size_t hash_of(const Node& node) {
        if constexpr (kKeepsHash)
            return node.hash;
        else
            return Hash{}(key_of(node));
    }
    std::size_t bucket_of(const ChainLink& link) const {
        return buckets_.of(hash_of(reinterpret_cast<const Node&>(link)));
    }
    // Tables of one bucket have it in memory of its own here, too: this one is free, and null at
    // first. In composed messages they have it here, and are filled in one step.
    ChainLink** state() const noexcept { return &table_.single_bucket; }
    bool is_own_bucket() const noexcept { return table_.buckets == state(); }

    void append(ChainLink* link) noexcept {
        last_->next = link;
        last_ = link;
    }
    void insert(Node* node) {
        if constexpr (kKeepsHash) node->hash = Hash{}(key_of(*node));
        const std::size_t bucket = buckets_.of(hash_of(*node));
        ChainLink*& before = table_.buckets[bucket];
        node->links.next = nullptr;
        if (before == nullptr) {
            before = last_;
            append(&node->links);
            last_bucket_ = bucket;
            return;
        }
        check_others(*node, *before, bucket == last_bucket_);
        if (bucket == last_bucket_) return append(&node->links);
        node->links.next = before->next;
        before->next = &node->links;
    }
    // Equal keys are side by side, or refused; as far as few keys share a bucket.
    void check_others(const Node& node, const ChainLink& before, bool appends) const {
        const ChainLink* const neighbor = appends ? last_ : before.next;
        bool equals_other = false, equals_neighbor = false;
        const ChainLink* at = before.next;
        for (int i = 0; i < kMostCompared && at != nullptr; ++i, at = at->next) {
            if (!are_equal(node, reinterpret_cast<const Node&>(*at))) continue;
            equals_other = true;
            equals_neighbor |= at == neighbor;
        }
        if (!equals_other) return;
        if (!IsMulti) corrupt_("a key is twice in a container");
        if (!equals_neighbor && !are_equal(node, reinterpret_cast<const Node&>(*neighbor)))
            corrupt_("equal keys of a container are not side by side");
    }
    static bool are_equal(const Node& a, const Node& b) {
        if constexpr (kKeepsHash)
            if (a.hash != b.hash) return false;
        return typename Functions::Equal{}(key_of(a), key_of(b));
    }
    void insert_all() {
        ChainLink* at = table_.before_first.next;
        table_.before_first.next = nullptr;
        last_ = &table_.before_first;
        for (std::size_t i = 0; i < table_.count; ++i) {
            if (at == nullptr) corrupt_("two containers have the same node");
            ChainLink* const next = at->next;
            insert(reinterpret_cast<Node*>(at));
            at = next;
        }
    }

    void (*corrupt_)(const char*);
    HashImage& table_;
    const Modulus buckets_;
    ChainLink* last_;
    std::size_t last_bucket_ = ~std::size_t{0};
};

template <class Container, class V, class KeyOf, bool IsMulti>
struct UnorderedTrait
    : ContainerTrait<typename Container::allocator_type, V, OwnedOne,
                     HashNode<V, kKeepsHash<typename KeyOf::Key, typename Container::hasher>>> {
    using Key = typename KeyOf::Key;
    using Hash = typename Container::hasher;
    using Equal = typename Container::key_equal;
    static_assert(kIsStateless<Hash> && kIsStateless<Equal>,
                  "verbatim: unordered containers need a hash function and an equality without "
                  "state: the receiver makes its own");
    static_assert(is_value_key<Key>(),
                  "verbatim: keys must be numbers, enums, strings, or tuples, optionals, variants, "
                  "arrays and classes of these: others may hash differently at the receiver");
    using Node = HashNode<V, kKeepsHash<Key, Hash>>;
    using UnorderedTrait::ContainerTrait::kPolymorphic;
    static_assert(sizeof(Container) == kAllocatorBytes<kPolymorphic> + sizeof(HashImage),
                  "verbatim: the hash function of a container may not be over-aligned");

    template <class S>
    static void pack(S& sender, const Container& container, Slot) {
        const auto& image = UnorderedTrait::template image_of<HashImage>(&container);
        if (image.count == 0) return;
        if constexpr (ByAddress<S>) {
            if (image.bucket_count > 1) sender.room(image.buckets, bytes_of(image.bucket_count));
        } else {
            const std::size_t buckets = bucket_count_for(image.count, image.bucket_count);
            sender.reserve(bytes_of(buckets), alignof(ChainLink*));
        }
        if (knows_nodes<Node>(sender, container, image.count)) return;
        NodePacking<Node, S>::begin_keyed(sender, image.before_first.next, image.count);
    }
    template <class R>
    static void mend(R& receiver, Container& container) {
        std::byte* const bytes = forbid_allocation<kPolymorphic>(&container);
        auto& image = *reinterpret_cast<HashImage*>(bytes);
        const std::size_t count = image.count, sent = image.bucket_count;
        const void *const first = image.before_first.next, *const buckets = image.buckets;
        if (count > kMostObjects) receiver.corrupt("more objects than the graph has bytes for");
        image = {&image.single_bucket, 1, {nullptr}, count, 1.0f, 0, nullptr};
        if (count == 0) return;
        if constexpr (ByAddress<R>) {
            if (sent == 0 || sent > kMostObjects)
                receiver.corrupt("a table has too many buckets, or none");
            if (sent > 1) set_buckets(image, receiver.room(buckets, bytes_of(sent)), sent);
            LinkedNodes<Linker<false>, R>::begin(receiver, bytes, count, first);
        } else {
            const std::size_t wanted = bucket_count_for(count, sent);
            set_buckets(image, receiver.reserve(bytes_of(wanted), alignof(ChainLink*)), wanted);
            if constexpr (R::Types::template claims<Node>())
                receiver.validate_later(&container, &is_whole);
            NodeMending<Linker<kWalksNodes<R, Node>>, R>::begin_keyed(receiver, bytes, count);
        }
    }

  private:
    template <bool HashesLate>
    using Linker = HashLinker<V, KeyOf, UnorderedTrait, IsMulti, HashesLate>;

    static std::uint64_t bytes_of(std::size_t buckets) noexcept {
        return buckets * sizeof(ChainLink*);
    }
    static void set_buckets(HashImage& image, std::byte* room, std::size_t buckets) noexcept {
        std::memset(room, 0, bytes_of(buckets));
        image.buckets = reinterpret_cast<ChainLink**>(room);
        image.bucket_count = image.next_resize = buckets;
    }
    static bool is_whole(const std::byte* container) noexcept {
        return Linker<true>::is_whole(UnorderedTrait::template image_of<HashImage>(container));
    }
};

}  // namespace detail

template <class K, class T, class H, class P, class A>
struct Trait<std::unordered_map<K, T, H, P, A>>
    : detail::UnorderedTrait<std::unordered_map<K, T, H, P, A>, std::pair<const K, T>,
                             detail::FirstKey<K>, false> {
    static std::string spell() { return Trait::spell_container("unordered_map"); }
};
template <class K, class T, class H, class P, class A>
struct Trait<std::unordered_multimap<K, T, H, P, A>>
    : detail::UnorderedTrait<std::unordered_multimap<K, T, H, P, A>, std::pair<const K, T>,
                             detail::FirstKey<K>, true> {
    static std::string spell() { return Trait::spell_container("unordered_multimap"); }
};
template <class K, class H, class P, class A>
struct Trait<std::unordered_set<K, H, P, A>>
    : detail::UnorderedTrait<std::unordered_set<K, H, P, A>, K, detail::WholeKey<K>, false> {
    static std::string spell() { return Trait::spell_container("unordered_set"); }
};
template <class K, class H, class P, class A>
struct Trait<std::unordered_multiset<K, H, P, A>>
    : detail::UnorderedTrait<std::unordered_multiset<K, H, P, A>, K, detail::WholeKey<K>, true> {
    static std::string spell() { return Trait::spell_container("unordered_multiset"); }
};

}  // namespace verbatim::objects

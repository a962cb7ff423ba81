// Probes the standard library's layout of containers once, with live objects.
#include <verbatim/objects/libstdcxx_containers.hpp>

#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <verbatim/objects/libstdcxx.hpp>

namespace verbatim::objects {
namespace {

// The image of a container, which must fill it but for what comes before.
template <class Image, class T>
const Image* image_in(const T& container, std::size_t skip) {
    if (sizeof(T) != skip + sizeof(Image)) return nullptr;
    return reinterpret_cast<const Image*>(reinterpret_cast<const std::byte*>(&container) + skip);
}
template <class Node>
const Node* node_at(const void* links) {
    return static_cast<const Node*>(links);
}
template <class Node, class V>
bool has_value(const void* links, const V& value) {
    return static_cast<const void*>(node_at<Node>(links)->value) ==
           static_cast<const void*>(&value);
}

template <bool Polymorphic, class List>
bool list_is_as_known() {
    const List list{1, 2};
    const auto* image = image_in<ListImage>(list, kAllocatorBytes<Polymorphic>);
    if (image == nullptr) return false;
    const ListLinks *first = image->ends.next, *last = image->ends.previous;
    return image->size == 2 && first->next == last && last->previous == first &&
           first->previous == &image->ends && last->next == &image->ends &&
           has_value<ListNode<int>>(first, list.front()) &&
           has_value<ListNode<int>>(last, list.back());
}

template <bool Polymorphic, class List>
bool forward_list_is_as_known() {
    const List list{1, 2};
    const auto* image = image_in<ChainLink>(list, kAllocatorBytes<Polymorphic>);
    return image != nullptr && image->next->next->next == nullptr &&
           has_value<ChainNode<int>>(image->next, list.front());
}

template <bool Polymorphic, class Set>
bool tree_is_as_known() {
    const Set set{1, 2, 3};
    const auto* image = image_in<TreeImage>(set, kAllocatorBytes<Polymorphic> + kComparatorBytes);
    if (image == nullptr) return false;
    const TreeLinks& header = image->header;
    const TreeLinks* const root = header.parent;
    return image->count == 3 && header.color == TreeLinks::kRed && root->parent == &header &&
           root->color == TreeLinks::kBlack && header.left->color == TreeLinks::kRed &&
           root->left == header.left && root->right == header.right &&
           has_value<TreeNode<int>>(header.left, *set.begin()) &&
           has_value<TreeNode<int>>(header.right, *set.rbegin());
}

template <class Key, bool KeepsHash, bool Polymorphic, class Set>
bool table_is_as_known(const Set& set) {
    using Node = HashNode<Key, KeepsHash>;
    if (kKeepsHash<Key, std::hash<Key>> != KeepsHash) return false;
    const auto* image = image_in<HashImage>(set, kAllocatorBytes<Polymorphic>);
    if (image == nullptr) return false;
    const ChainLink* const first = image->before_first.next;
    const std::size_t hash = std::hash<Key>{}(*set.begin());
    if constexpr (KeepsHash)
        if (node_at<Node>(first)->hash != hash) return false;
    return image->count == 2 && image->bucket_count == set.bucket_count() &&
           image->max_load == set.max_load_factor() && first->next->next == nullptr &&
           image->buckets[hash % image->bucket_count] == &image->before_first &&
           has_value<Node>(first, *set.begin());
}
bool hash_tables_are_as_known() {
    const std::unordered_set<int> none;
    const auto* image = image_in<HashImage>(none, 0);
    return image != nullptr && image->buckets == &image->single_bucket &&
           sizeof(HashNode<std::pair<const std::string, char>, true>) ==
               sizeof(std::__detail::_Hash_node<std::pair<const std::string, char>, true>) &&
           table_is_as_known<int, false, false>(std::unordered_set<int>{1, 2}) &&
           table_is_as_known<int, false, true>(std::pmr::unordered_set<int>{1, 2}) &&
           table_is_as_known<std::string, true, false>(
               std::unordered_set<std::string>{"one", "two"});
}

template <bool Polymorphic, class Deque>
bool deque_is_as_known() {
    Deque deque{1, 2};
    deque.pop_front();
    for (std::uint64_t i = 0; i < kDequeBuffer<int>; ++i) deque.push_back(3);
    const auto* image = image_in<DequeImage>(deque, kAllocatorBytes<Polymorphic>);
    if (image == nullptr) return false;
    const auto is_whole = [](const DequeEnd& end) {
        return *end.entry == end.first && end.last == end.first + kDequeBuffer<int> * sizeof(int);
    };
    return image->start.entry + 1 == image->finish.entry && image->start.entry >= image->map &&
           image->finish.entry < image->map + image->map_entries && is_whole(image->start) &&
           is_whole(image->finish) && static_cast<const void*>(image->start.at) == &deque.front() &&
           image->start.at == image->start.first + sizeof(int) &&
           image->finish.at == image->finish.first + 2 * sizeof(int);
}

template <bool Polymorphic, class Bits>
bool bits_are_as_known() {
    Bits bits(65);
    bits[64] = true;
    const auto* image = image_in<BitsImage>(bits, kAllocatorBytes<Polymorphic>);
    return image != nullptr && image->start_bit == 0 && image->finish_bit == 1 &&
           image->finish == image->start + sizeof(unsigned long) &&
           image->storage_end == image->start + 2 * sizeof(unsigned long) &&
           (*reinterpret_cast<const unsigned long*>(image->finish) & 1) == 1;
}

}  // namespace

bool containers_are_as_known() {
    static const bool known =
        list_is_as_known<false, std::list<int>>() &&
        list_is_as_known<true, std::pmr::list<int>>() &&
        forward_list_is_as_known<false, std::forward_list<int>>() &&
        forward_list_is_as_known<true, std::pmr::forward_list<int>>() &&
        tree_is_as_known<false, std::set<int>>() && tree_is_as_known<true, std::pmr::set<int>>() &&
        sizeof(std::map<int, int>) == sizeof(std::set<int>) && hash_tables_are_as_known() &&
        deque_is_as_known<false, std::deque<int>>() &&
        deque_is_as_known<true, std::pmr::deque<int>>() &&
        bits_are_as_known<false, std::vector<bool>>() &&
        bits_are_as_known<true, std::pmr::vector<bool>>();
    return known;
}

}  // namespace verbatim::objects

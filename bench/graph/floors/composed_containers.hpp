// Verifying traversals by hand of containers. Each returns the root, or throws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <verbatim/objects/libstdcxx_containers.hpp>

#include "../workloads/maps.hpp"
#include "../workloads/records.hpp"
#include "composed_checks.hpp"

namespace bench_graph::by_hand {

inline RecordList* receive(RecordList* sent, const Memory& memory, std::byte* map) {
    const auto [places, taken, root] = Begun<RecordList, Taken>(sent, memory, map);
    move_vector(root->records, places, taken);
    for (Record& record : root->records) move_text(record.name, places, taken);
    return root;
}

// The nodes are walked in order of their keys, by their own links.
inline MapRoot<OrderedMap>* receive(MapRoot<OrderedMap>* sent, const Memory& memory,
                                    std::byte* map) {
    using verbatim::objects::TreeImage;
    using verbatim::objects::TreeLinks;
    struct Node {
        TreeLinks links;
        std::pair<std::int32_t, Entry> value;
    };
    const auto [places, taken, root] = Begun<MapRoot<OrderedMap>, Taken>(sent, memory, map);
    AnyWord* const fields = reinterpret_cast<AnyWord*>(&root->entries);
    fields[0] = no_resource();
    auto& tree = *reinterpret_cast<TreeImage*>(fields + 2);
    std::array<TreeLinks*, 128> path;
    std::size_t depth = 0;
    std::uint64_t left = tree.count;
    const Node* last = nullptr;
    TreeLinks* parent = &tree.header;
    const auto descend = [&](TreeLinks** field) {
        while (*field != nullptr) {
            const std::uint64_t at = places.of<Node>(*field);
            taken.take(at, sizeof(Node));
            auto* const node = places.at<TreeLinks>(at);
            *field = node;
            node->parent = parent;
            check(node->color <= 1 && depth < path.size());
            path[depth++] = parent = node;
            field = &node->left;
        }
    };
    descend(&tree.header.parent);
    tree.header.left = depth == 0 ? &tree.header : path[depth - 1];
    while (depth > 0) {
        auto* const node = reinterpret_cast<Node*>(path[--depth]);
        check(left-- > 0 && (last == nullptr || last->value.first < node->value.first));
        last = node;
        parent = &node->links;
        descend(&node->links.right);
    }
    check(left == 0);
    tree.header.right = parent;
    return root;
}

// All buckets are filled anew, as the nodes of one bucket must be side by side.
inline MapRoot<HashedMap>* receive(MapRoot<HashedMap>* sent, const Memory& memory, std::byte* map) {
    using verbatim::objects::ChainLink;
    using verbatim::objects::HashImage;
    struct Node {
        ChainLink links;
        std::pair<std::int32_t, Entry> value;
    };
    const auto [places, taken, root] = Begun<MapRoot<HashedMap>, Taken>(sent, memory, map);
    AnyWord* const fields = reinterpret_cast<AnyWord*>(&root->entries);
    fields[0] = no_resource();
    auto& table = *reinterpret_cast<HashImage*>(fields + 1);
    const std::uint64_t buckets = table.bucket_count;
    check(buckets > 1 && buckets <= memory.used / 8);
    const std::uint64_t first = places.of<ChainLink*>(table.buckets, buckets);
    taken.take(first, buckets * sizeof(ChainLink*));
    table.buckets = places.at<ChainLink*>(first);
    std::memset(table.buckets, 0, buckets * sizeof(ChainLink*));
    ChainLink* last = &table.before_first;
    std::uint64_t last_bucket = buckets, left = table.count;
    for (; last->next != nullptr; --left) {
        const std::uint64_t at = places.of<Node>(last->next);
        taken.take(at, sizeof(Node));
        auto* const node = places.at<Node>(at);
        check(left > 0);
        const std::uint64_t bucket = static_cast<std::uint64_t>(node->value.first) % buckets;
        last->next = &node->links;
        if (bucket != last_bucket) {
            check(table.buckets[bucket] == nullptr);
            table.buckets[bucket] = last;
            last_bucket = bucket;
        } else {
            for (const ChainLink* other = table.buckets[bucket]->next; other != &node->links;
                 other = other->next)
                check(reinterpret_cast<const Node*>(other)->value.first != node->value.first);
        }
        last = &node->links;
    }
    check(left == 0);
    return root;
}

}  // namespace bench_graph::by_hand

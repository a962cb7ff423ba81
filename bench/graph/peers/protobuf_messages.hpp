// Graphs as protobuf messages: fill(message, root), and build(message, memory), which makes
// ordinary objects of it.
#pragma once

#include <messages.pb.h>
#include "object_makers.hpp"

namespace bench_graph {

inline void fill(proto::Cloud& message, const Cloud& cloud) {
    message.mutable_points()->Reserve(static_cast<int>(cloud.points.size()));
    for (const Point* point : cloud.points) {
        proto::Point* added = message.add_points();
        added->set_x(point->x);
        added->set_y(point->y);
    }
}
inline Cloud* build(const proto::Cloud& message, std::pmr::memory_resource& memory) {
    auto at = message.points().begin();
    return make_points(memory, static_cast<std::size_t>(message.points_size()), [&] {
        const proto::Point& point = *at++;
        return Point{point.x(), point.y()};
    });
}

inline void fill(proto::Values& message, const Link& list) {
    for (const Link* node = &list; node != nullptr; node = node->next)
        message.add_values(node->value);
}
inline Link* build(const proto::Values& message, std::pmr::memory_resource& memory) {
    auto at = message.values().begin();
    return link_list(memory, static_cast<std::size_t>(message.values_size()),
                     [&] { return *at++; });
}

inline void fill(proto::Branch& message, const Branch& branch) {
    message.set_value(branch.value);
    if (branch.left != nullptr) fill(*message.mutable_left(), *branch.left);
    if (branch.right != nullptr) fill(*message.mutable_right(), *branch.right);
}
inline Branch* build(const proto::Branch& message, std::pmr::memory_resource& memory) {
    auto* branch = make_in(memory, Branch{message.value(), nullptr, nullptr});
    if (message.has_left()) branch->left = build(message.left(), memory);
    if (message.has_right()) branch->right = build(message.right(), memory);
    return branch;
}

inline void fill(proto::Nodes& message, const Node& root) {
    NodeNumbers numbers;
    const auto& nodes = numbers.walk(root);
    message.mutable_nodes()->Reserve(static_cast<int>(nodes.size()));
    for (const Node* node : nodes) {
        proto::Node* added = message.add_nodes();
        added->set_value(node->value);
        added->set_first(numbers.of(node->first));
        added->set_second(numbers.of(node->second));
        added->set_third(numbers.of(node->third));
        added->set_fourth(numbers.of(node->fourth));
    }
}
inline Node* build(const proto::Nodes& message, std::pmr::memory_resource& memory) {
    auto at = message.nodes().begin();
    return link_nodes(memory, static_cast<std::size_t>(message.nodes_size()), [&] {
        const proto::Node& node = *at++;
        return NumberedNode{node.value(),
                            {node.first(), node.second(), node.third(), node.fourth()}};
    });
}

template <class Message, class Map>
void fill(Message& message, const MapRoot<Map>& root) {
    auto& entries = *message.mutable_entries();
    for (const auto& [key, entry] : root.entries) {
        proto::Entry* added;
        if constexpr (kHasText<Map>)
            added = &entries[std::string(key)];
        else
            added = &entries[key];
        added->set_value(entry.value);
        added->set_count(entry.count);
    }
}
// protobuf's maps are hashed, so an ordered one is made without hints.
template <class Map, class Message>
MapRoot<Map>* build(const Message& message, std::pmr::memory_resource& memory) {
    auto at = message.entries().begin();
    return make_map<Map>(memory, message.entries().size(), [&](Map& entries) {
        const auto& [key, entry] = *at;
        entries.emplace(key, Entry{entry.value(), entry.count()});
        ++at;
    });
}

// The message of a graph, by the type of its root.
template <class Root>
struct MessageOf;
template <>
struct MessageOf<Cloud> {
    using type = proto::Cloud;
};
template <>
struct MessageOf<Link> {
    using type = proto::Values;
};
template <>
struct MessageOf<Branch> {
    using type = proto::Branch;
};
template <>
struct MessageOf<Node> {
    using type = proto::Nodes;
};
template <class Map>
struct MessageOf<MapRoot<Map>> {
    using type = std::conditional_t<kHasText<Map>, proto::TextMap, proto::NumberMap>;
};

template <class Root>
struct IsMap : std::false_type {};
template <class Map>
struct IsMap<MapRoot<Map>> : std::true_type {};

template <class Root>
const Root& build_root(const typename MessageOf<Root>::type& message,
                       std::pmr::memory_resource& memory) {
    if constexpr (IsMap<Root>::value)
        return *build<decltype(Root::entries)>(message, memory);
    else
        return *build(message, memory);
}

}  // namespace bench_graph

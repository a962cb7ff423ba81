// flatbuffers: the graph is written into one reused buffer, copied, and verified by the receiver,
// which reads it in place. So it yields no objects, and stands beside the subjects that do.
#include <graphs_generated.h>

#include "flat_wire.hpp"
#include "object_makers.hpp"
#include "peer_cases.hpp"
#include "peer_subject.hpp"

namespace bench_graph {
namespace {

using flatbuffers::Offset;
using Builder = flatbuffers::FlatBufferBuilder;

Offset<flat::Cloud> write(Builder& builder, const Cloud& cloud) {
    flat::Point* to = nullptr;
    const auto points = builder.CreateUninitializedVectorOfStructs(cloud.points.size(), &to);
    for (const Point* point : cloud.points) *to++ = flat::Point(point->x, point->y);
    return flat::CreateCloud(builder, points);
}
const Cloud* read(const flat::Cloud& message, std::pmr::memory_resource& memory) {
    flatbuffers::uoffset_t next = 0;
    return make_points(memory, message.points()->size(), [&] {
        const flat::Point& point = *message.points()->Get(next++);
        return Point{point.x(), point.y()};
    });
}

Offset<flat::Values> write(Builder& builder, const Link& list) {
    std::size_t count = 0;
    for (const Link* node = &list; node != nullptr; node = node->next) ++count;
    std::uint64_t* to = nullptr;
    const auto values = builder.CreateUninitializedVector<std::uint64_t>(count, &to);
    for (const Link* node = &list; node != nullptr; node = node->next) *to++ = node->value;
    return flat::CreateValues(builder, values);
}
const Link* read(const flat::Values& message, std::pmr::memory_resource& memory) {
    flatbuffers::uoffset_t next = 0;
    return link_list(memory, message.values()->size(),
                     [&] { return message.values()->Get(next++); });
}

// Children before their parents, as the format wants it.
Offset<flat::Branch> write(Builder& builder, const Branch& branch) {
    Offset<flat::Branch> left, right;
    if (branch.left != nullptr) left = write(builder, *branch.left);
    if (branch.right != nullptr) right = write(builder, *branch.right);
    return flat::CreateBranch(builder, branch.value, left, right);
}
Branch* read(const flat::Branch& message, std::pmr::memory_resource& memory) {
    auto* branch = make_in(memory, Branch{message.value(), nullptr, nullptr});
    if (message.left() != nullptr) branch->left = read(*message.left(), memory);
    if (message.right() != nullptr) branch->right = read(*message.right(), memory);
    return branch;
}

Offset<flat::Nodes> write(Builder& builder, const Node& root) {
    NodeNumbers numbers;
    const auto& nodes = numbers.walk(root);
    flat::Node* to = nullptr;
    const auto written = builder.CreateUninitializedVectorOfStructs(nodes.size(), &to);
    for (const Node* node : nodes)
        *to++ = flat::Node(node->value, numbers.of(node->first), numbers.of(node->second),
                           numbers.of(node->third), numbers.of(node->fourth));
    return flat::CreateNodes(builder, written);
}
const Node* read(const flat::Nodes& message, std::pmr::memory_resource& memory) {
    flatbuffers::uoffset_t next = 0;
    return link_nodes(memory, message.nodes()->size(), [&] {
        const flat::Node& node = *message.nodes()->Get(next++);
        return NumberedNode{node.value(),
                            {node.first(), node.second(), node.third(), node.fourth()}};
    });
}

// Sorted by key, so that readers can look keys up.
template <class Map>
auto write(Builder& builder, const MapRoot<Map>& root) {
    if constexpr (kHasText<Map>) {
        std::vector<Offset<flat::TextEntry>> entries;
        entries.reserve(root.entries.size());
        for (const auto& [key, entry] : root.entries) {
            const flat::Entry value(entry.value, entry.count);
            const auto text = builder.CreateString(key.data(), key.size());
            entries.push_back(flat::CreateTextEntry(builder, text, &value));
        }
        return flat::CreateTextMap(builder, kHashed<Map>
                                                ? builder.CreateVectorOfSortedTables(&entries)
                                                : builder.CreateVector(entries));
    } else {
        std::vector<flat::NumberEntry> entries;
        entries.reserve(root.entries.size());
        for (const auto& [key, entry] : root.entries)
            entries.emplace_back(key, flat::Entry(entry.value, entry.count));
        return flat::CreateNumberMap(builder, kHashed<Map>
                                                  ? builder.CreateVectorOfSortedStructs(&entries)
                                                  : builder.CreateVectorOfStructs(entries));
    }
}
template <class Map, class Message>
const MapRoot<Map>* read_map(const Message& message, std::pmr::memory_resource& memory) {
    flatbuffers::uoffset_t next = 0;
    return make_map<Map>(memory, message.entries()->size(), [&](Map& entries) {
        const auto& from = *message.entries()->Get(next++);
        if constexpr (kHasText<Map>)
            entries.emplace(from.key()->string_view(),
                            Entry{from.entry()->value(), from.entry()->count()});
        else
            entries.emplace(from.key(), Entry{from.entry().value(), from.entry().count()});
    });
}

template <class Root>
class FlatBuffersCodec {
    template <class T>
    static T message_of(Offset<T>);
    using Message =
        decltype(message_of(write(std::declval<Builder&>(), std::declval<const Root&>())));

  public:
    template <class W>
    FlatBuffersCodec(const W& workload, const Root&) : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const Root& sent, GraphMemory&) {
        message_ = &wire_.transfer<Message>([&](Builder& builder) { return write(builder, sent); });
    }
    const Root& received(GraphMemory& memory) {
        memory.reset();
        if constexpr (requires { message_->entries(); })
            return *read_map<decltype(Root::entries)>(*message_, memory);
        else
            return *read(*message_, memory);
    }

  private:
    FlatWire wire_;
    const Message* message_ = nullptr;
};

}  // namespace

void add_flatbuffers() {
    for_each_peer_case(
        [](const auto& workload) { add_peer<FlatBuffersCodec>(workload, "flatbuffers"); });
}

}  // namespace bench_graph

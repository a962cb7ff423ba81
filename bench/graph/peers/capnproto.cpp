// capnproto: the graph is built in one reused segment and copied; the receiver reads it in place
// and checks what it reads as it goes. So it yields no objects, and stands beside the subjects that
// do.
#include <graphs.capnp.h>

#include "object_makers.hpp"
#include "peer_cases.hpp"
#include "peer_subject.hpp"
#include "words_wire.hpp"

namespace bench_graph {
namespace {

unsigned size_of(std::size_t count) { return static_cast<unsigned>(count); }

void write(words::Cloud::Builder message, const Cloud& cloud) {
    auto points = message.initPoints(size_of(cloud.points.size()));
    for (unsigned n = 0; n < points.size(); ++n) {
        points[n].setX(cloud.points[n]->x);
        points[n].setY(cloud.points[n]->y);
    }
}
const Cloud* read(words::Cloud::Reader message, std::pmr::memory_resource& memory) {
    const auto points = message.getPoints();
    unsigned next = 0;
    return make_points(memory, points.size(), [&] {
        const auto point = points[next++];
        return Point{point.getX(), point.getY()};
    });
}

void write(words::Values::Builder message, const Link& list) {
    std::size_t count = 0;
    for (const Link* node = &list; node != nullptr; node = node->next) ++count;
    auto values = message.initValues(size_of(count));
    unsigned n = 0;
    for (const Link* node = &list; node != nullptr; node = node->next) values.set(n++, node->value);
}
const Link* read(words::Values::Reader message, std::pmr::memory_resource& memory) {
    const auto values = message.getValues();
    unsigned next = 0;
    return link_list(memory, values.size(), [&] { return values[next++]; });
}

void write(words::Branch::Builder message, const Branch& branch) {
    message.setValue(branch.value);
    if (branch.left != nullptr) write(message.initLeft(), *branch.left);
    if (branch.right != nullptr) write(message.initRight(), *branch.right);
}
Branch* read(words::Branch::Reader message, std::pmr::memory_resource& memory) {
    auto* branch = make_in(memory, Branch{message.getValue(), nullptr, nullptr});
    if (message.hasLeft()) branch->left = read(message.getLeft(), memory);
    if (message.hasRight()) branch->right = read(message.getRight(), memory);
    return branch;
}

void write(words::Nodes::Builder message, const Node& root) {
    NodeNumbers numbers;
    const auto& nodes = numbers.walk(root);
    auto written = message.initNodes(size_of(nodes.size()));
    for (unsigned n = 0; n < written.size(); ++n) {
        auto node = written[n];
        node.setValue(nodes[n]->value);
        node.setFirst(numbers.of(nodes[n]->first));
        node.setSecond(numbers.of(nodes[n]->second));
        node.setThird(numbers.of(nodes[n]->third));
        node.setFourth(numbers.of(nodes[n]->fourth));
    }
}
const Node* read(words::Nodes::Reader message, std::pmr::memory_resource& memory) {
    const auto nodes = message.getNodes();
    unsigned next = 0;
    return link_nodes(memory, nodes.size(), [&] {
        const auto node = nodes[next++];
        return NumberedNode{node.getValue(),
                            {node.getFirst(), node.getSecond(), node.getThird(), node.getFourth()}};
    });
}

template <class Map, class Message>
void write(Message message, const MapRoot<Map>& root) {
    auto entries = message.initEntries(size_of(root.entries.size()));
    unsigned n = 0;
    for (const auto& [key, entry] : root.entries) {
        auto to = entries[n++];
        if constexpr (kHasText<Map>)
            to.setKey(capnp::Text::Reader(key.c_str(), key.size()));
        else
            to.setKey(key);
        to.setValue(entry.value);
        to.setCount(entry.count);
    }
}
template <class Map, class Message>
const MapRoot<Map>* read_map(Message message, std::pmr::memory_resource& memory) {
    const auto from = message.getEntries();
    unsigned next = 0;
    return make_map<Map>(memory, from.size(), [&](Map& entries) {
        const auto each = from[next++];
        const Entry entry{each.getValue(), each.getCount()};
        if constexpr (kHasText<Map>)
            entries.emplace(std::string_view(each.getKey().begin(), each.getKey().size()), entry);
        else
            entries.emplace(each.getKey(), entry);
    });
}

template <class Root>
struct WordsOf {
    using type =
        std::conditional_t<kHasText<decltype(Root::entries)>, words::TextMap, words::NumberMap>;
};
template <>
struct WordsOf<Cloud> {
    using type = words::Cloud;
};
template <>
struct WordsOf<Link> {
    using type = words::Values;
};
template <>
struct WordsOf<Branch> {
    using type = words::Branch;
};
template <>
struct WordsOf<Node> {
    using type = words::Nodes;
};

template <class Root>
class CapnProtoCodec {
    using Message = typename WordsOf<Root>::type;

  public:
    template <class W>
    CapnProtoCodec(const W& workload, const Root&) : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const Root& sent, GraphMemory&) {
        wire_.transfer<Message>([&](typename Message::Builder message) { write(message, sent); });
    }
    const Root& received(GraphMemory& memory) {
        memory.reset();
        const auto message = wire_.message<Message>();
        if constexpr (requires { message.getEntries(); })
            return *read_map<decltype(Root::entries)>(message, memory);
        else
            return *read(message, memory);
    }

  private:
    WordsWire wire_;
};

}  // namespace

void add_capnproto() {
    for_each_peer_case(
        [](const auto& workload) { add_peer<CapnProtoCodec>(workload, "capnproto"); });
}

}  // namespace bench_graph

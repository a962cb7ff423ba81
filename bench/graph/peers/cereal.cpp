// cereal: writes what the pointers lead to and makes separate objects of it again. cereal refuses
// raw pointers, so that these few lines are what its user has to add. Its own way of keeping
// identity, std::shared_ptr, recurses once for each link, which is too deep for the list and the
// cyclic graph; nodes of the latter are numbered instead.
#include "cereal_wire.hpp"

#include <cereal/types/array.hpp>
#include <cereal/types/string.hpp>

#include "object_makers.hpp"
#include "peer_cases.hpp"
#include "peer_subject.hpp"

namespace bench_graph {

template <class Archive>
void serialize(Archive& archive, Point& point) {
    archive(point.x, point.y);
}
template <class Archive>
void serialize(Archive& archive, Entry& entry) {
    archive(entry.value, entry.count);
}
template <class Archive>
void serialize(Archive& archive, NumberedNode& node) {
    archive(node.value, node.next);
}

namespace {

template <class Archive>
std::size_t load_size(Archive& archive) {
    std::size_t count = 0;
    archive(cereal::make_size_tag(count));
    return count;
}
template <class T, class Archive>
T load_value(Archive& archive) {
    T value{};
    archive(value);
    return value;
}

template <class Archive>
void save(Archive& archive, const Cloud& cloud) {
    archive(cereal::make_size_tag(cloud.points.size()));
    for (const Point* point : cloud.points) archive(*point);
}
template <class Archive>
void load(Archive& archive, std::pmr::memory_resource& memory, Cloud*& cloud) {
    cloud = make_points(memory, load_size(archive), [&] { return load_value<Point>(archive); });
}

// Its length is not known before, so that the list is walked twice.
template <class Archive>
void save(Archive& archive, const Link& list) {
    std::size_t count = 0;
    for (const Link* node = &list; node != nullptr; node = node->next) ++count;
    archive(cereal::make_size_tag(count));
    for (const Link* node = &list; node != nullptr; node = node->next) archive(node->value);
}
template <class Archive>
void load(Archive& archive, std::pmr::memory_resource& memory, Link*& list) {
    list =
        link_list(memory, load_size(archive), [&] { return load_value<std::uint64_t>(archive); });
}

template <class Archive>
void save(Archive& archive, const Branch& branch) {
    archive(branch.value, branch.left != nullptr, branch.right != nullptr);
    if (branch.left != nullptr) save(archive, *branch.left);
    if (branch.right != nullptr) save(archive, *branch.right);
}
template <class Archive>
void load(Archive& archive, std::pmr::memory_resource& memory, Branch*& branch) {
    bool left = false, right = false;
    branch = make_in(memory, Branch{});
    archive(branch->value, left, right);
    if (left) load(archive, memory, branch->left);
    if (right) load(archive, memory, branch->right);
}

template <class Archive>
void save(Archive& archive, const Node& root) {
    NodeNumbers numbers;
    const auto& nodes = numbers.walk(root);
    archive(cereal::make_size_tag(nodes.size()));
    for (const Node* node : nodes)
        archive(NumberedNode{node->value,
                             {numbers.of(node->first), numbers.of(node->second),
                              numbers.of(node->third), numbers.of(node->fourth)}});
}
template <class Archive>
void load(Archive& archive, std::pmr::memory_resource& memory, Node*& root) {
    root =
        link_nodes(memory, load_size(archive), [&] { return load_value<NumberedNode>(archive); });
}

template <class Archive, class Map>
void save(Archive& archive, const MapRoot<Map>& root) {
    archive(cereal::make_size_tag(root.entries.size()));
    for (const auto& [key, entry] : root.entries) archive(key, entry);
}
template <class Archive, class Map>
void load(Archive& archive, std::pmr::memory_resource& memory, MapRoot<Map>*& root) {
    using Key = std::conditional_t<kHasText<Map>, std::string, std::int32_t>;
    Key key{};  // keeps its capacity
    Entry entry;
    root = make_map<Map>(memory, load_size(archive), [&](Map& entries) {
        archive(key, entry);
        if constexpr (kHashed<Map>)
            entries.emplace(key, entry);
        else
            entries.emplace_hint(entries.end(), key, entry);
    });
}

template <class Root>
struct Outgoing {
    const Root& root;
    template <class Archive>
    void save(Archive& archive) const {
        bench_graph::save(archive, root);
    }
};
template <class Root>
struct Incoming {
    std::pmr::memory_resource& memory;
    Root* root = nullptr;
    template <class Archive>
    void load(Archive& archive) {
        bench_graph::load(archive, memory, root);
    }
};

template <class Root>
class CerealCodec {
  public:
    template <class W>
    CerealCodec(const W& workload, const Root&) : wire_(2 * workload.bytes()) {}
    std::uint64_t bytes() const { return wire_.bytes(); }
    void transfer(const Root& sent, GraphMemory& memory) {
        Incoming<Root> incoming{memory};
        wire_.transfer(Outgoing<Root>{sent}, incoming);
        received_ = incoming.root;
    }
    const Root& received(GraphMemory&) { return *received_; }

  private:
    CerealWire wire_;
    const Root* received_ = nullptr;
};

}  // namespace

void add_cereal() {
    for_each_peer_case([](const auto& workload) { add_peer<CerealCodec>(workload, "cereal"); });
    for_each_cold([]<class W>(const W& workload) {
        if constexpr (!std::is_same_v<W, Meshes<Mesh>>)
            add_peer<CerealCodec>(workload, "cereal", Measure::cold);
    });
}

}  // namespace bench_graph
